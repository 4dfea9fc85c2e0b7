// Improves the pages. They work without this script, except that numbers do not update by themselves.
"use strict";

// Times are written in UTC. Show them in the zone of the viewer.
const zoned = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
for (const time of document.querySelectorAll("time[datetime]")) {
  const date = new Date(time.dateTime);
  if (!Number.isNaN(date.valueOf())) {
    time.title = time.textContent;
    time.textContent = zoned.format(date);
  }
}

// A message can be dropped onto the field for pasting. The file is sent byte for byte.
const drop = document.querySelector("textarea[data-drop]");
if (drop) {
  const file = document.getElementById(drop.dataset.drop);
  const mark = (is) => (event) => {
    event.preventDefault();
    drop.classList.toggle("drop", is);
  };
  drop.addEventListener("dragover", mark(true));
  drop.addEventListener("dragleave", mark(false));
  drop.addEventListener("drop", (event) => {
    mark(false)(event);
    if (event.dataTransfer.files.length > 0) {
      file.files = event.dataTransfer.files;
      drop.form.requestSubmit();
    }
  });
}

// Changes that are hard to undo are confirmed.
for (const form of document.querySelectorAll("form[data-confirm]")) {
  form.addEventListener("submit", (event) => {
    if (!window.confirm(form.dataset.confirm)) {
      event.preventDefault();
    }
  });
}

// Times in charts.
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
// These are the first days of months in UTC, which can be the last days of other months elsewhere.
const month = new Intl.DateTimeFormat(undefined, { month: "short", year: "numeric", timeZone: "UTC" });
const formats = { hour: clock, day: clock, month: day, years: month };
for (const label of document.querySelectorAll("text[data-time]")) {
  label.textContent = formats[label.dataset.range].format(new Date(Number(label.dataset.time) * 1000));
}

// On a phone, the views are in one row that scrolls. Show the current one.
const current = document.querySelector(".top nav [aria-current]");
if (current) {
  const row = current.closest("ul");
  row.scrollLeft = current.offsetLeft - (row.clientWidth - current.offsetWidth) / 2;
}

// A problem began or ended since the page was loaded. The page itself stays as it is while someone reads it.
const notice = document.getElementById("health-changed");
function watchHealth(problems) {
  const isChanged = problems !== undefined && problems !== notice.dataset.problems;
  if (isChanged && !notice.hasChildNodes()) {
    const link = document.createElement("a");
    link.href = window.location.pathname + window.location.search;
    link.textContent = "Health has changed: reload";
    notice.append(link);
  } else if (!isChanged) {
    notice.replaceChildren();
  }
}

// Live figures. The stream is closed while nobody sees the page, because browsers allow few connections to a server.
const state = document.getElementById("live");
if (state) {
  let source = null;
  const follow = () => {
    source = new EventSource("/live");
    source.addEventListener("open", () => { state.textContent = "Numbers are live."; });
    source.addEventListener("error", () => {
      state.textContent = source.readyState === EventSource.CLOSED
        ? "Numbers are not live. Reload the page to see current ones."
        : "The connection to the server was lost. Reconnecting.";
    });
    source.addEventListener("message", (event) => {
      const figures = JSON.parse(event.data);
      for (const element of document.querySelectorAll("[data-live]")) {
        const figure = figures[element.dataset.live];
        if (figure !== undefined && figure !== element.textContent) {
          element.textContent = figure;
        }
      }
      if (notice) {
        watchHealth(figures.problems);
      }
    });
  };
  const stop = () => {
    if (source) {
      source.close();
      source = null;
    }
  };
  document.addEventListener("visibilitychange", () => {
    stop();
    if (!document.hidden) {
      follow();
    }
  });
  window.addEventListener("pagehide", stop);
  follow();
}
