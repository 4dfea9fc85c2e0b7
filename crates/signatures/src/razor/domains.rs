//! The registered part of a host name, according to the client's table of 2003.

/// Top-level domains, and the second-level labels under which names are registered. If `bare` is set, names are also
/// registered directly below the top-level domain.
const TABLE: &[Row] = &[
    Row { tld: "ar", bare: true, labels: "com gov int mil net" },
    Row { tld: "au", bare: true, labels: "asn com conf csiro gov id info net org oz telememo" },
    Row { tld: "az", bare: true, labels: "com net org" },
    Row { tld: "biz", bare: true, labels: "" },
    Row { tld: "br", bare: true, labels: "art com esp etc g12 gov ind inf mil net org pro psi rec tmp" },
    Row { tld: "ca", bare: true, labels: "ab bc gc mb nf ns nt on pe qc sk yk" },
    Row {
        tld: "cn",
        bare: true,
        labels: "ac ah bj com cq edu gd gov gs gx gz hb he hi hk hl hn jl js ln mo net nm nx org qh sc sh sn sx tj tw xj xz yn zj",
    },
    Row { tld: "co", bare: true, labels: "arts com edu firm gov info int mil nom org rec store web" },
    Row { tld: "com", bare: true, labels: "" },
    Row { tld: "cr", bare: true, labels: "ac co ed fi go or sa" },
    Row { tld: "cu", bare: true, labels: "com net org" },
    Row { tld: "cy", bare: true, labels: "ac com gov net org" },
    Row { tld: "cz", bare: true, labels: "" },
    Row { tld: "de", bare: true, labels: "" },
    Row { tld: "ec", bare: true, labels: "com edu fin gov k12 med mil net org" },
    Row { tld: "edu", bare: true, labels: "" },
    Row { tld: "eg", bare: true, labels: "com edu eun gov net org sci" },
    Row { tld: "fj", bare: true, labels: "ac com gov id org school" },
    Row { tld: "fr", bare: true, labels: "" },
    Row { tld: "ge", bare: true, labels: "com edu gov mil net org pvt" },
    Row { tld: "gg", bare: true, labels: "ac alderney co gov guernsey ind ltd net org sark sch" },
    Row { tld: "gu", bare: true, labels: "com edu gov mil net org" },
    Row { tld: "hk", bare: true, labels: "com edu gov idv net org" },
    Row { tld: "hu", bare: true, labels: "co info nui org priv tm" },
    Row { tld: "id", bare: true, labels: "ac co go mil net or" },
    Row { tld: "il", bare: true, labels: "ac co gov k12 muni net org" },
    Row { tld: "im", bare: true, labels: "ac co gov net nic org" },
    Row { tld: "in", bare: true, labels: "ac co ernet gov net nic res" },
    Row { tld: "info", bare: true, labels: "" },
    Row { tld: "jo", bare: true, labels: "com edu gov net" },
    Row { tld: "jp", bare: true, labels: "ac ad co go gr lg ne or" },
    Row { tld: "kr", bare: false, labels: "ac co go kyonggi ne or pe re seoul" },
    Row { tld: "la", bare: true, labels: "com net org" },
    Row { tld: "lb", bare: true, labels: "com gov mil net org" },
    Row { tld: "lc", bare: true, labels: "com edu gov net org" },
    Row { tld: "lv", bare: true, labels: "asn com conf edu gov id mil net org" },
    Row { tld: "ly", bare: true, labels: "com net org" },
    Row { tld: "mm", bare: true, labels: "com edu gov net org" },
    Row { tld: "mo", bare: true, labels: "com edu gov net org" },
    Row { tld: "mt", bare: true, labels: "com net org" },
    Row { tld: "mx", bare: true, labels: "com net org" },
    Row { tld: "my", bare: true, labels: "com edu gov net org" },
    Row { tld: "na", bare: true, labels: "com net org" },
    Row { tld: "nc", bare: true, labels: "com net org" },
    Row { tld: "ne", bare: true, labels: "" },
    Row { tld: "net", bare: true, labels: "" },
    Row { tld: "nf", bare: true, labels: "" },
    Row { tld: "ng", bare: true, labels: "" },
    Row { tld: "ni", bare: true, labels: "com" },
    Row { tld: "np", bare: true, labels: "com net ort" },
    Row { tld: "nz", bare: true, labels: "ac co govt net" },
    Row { tld: "org", bare: true, labels: "" },
    Row { tld: "pa", bare: true, labels: "ac com edu gob net org sld" },
    Row { tld: "pe", bare: true, labels: "com net org" },
    Row { tld: "ph", bare: true, labels: "com mil net ngo org" },
    Row { tld: "pl", bare: true, labels: "com net org" },
    Row { tld: "py", bare: true, labels: "com edu net org" },
    Row { tld: "ru", bare: true, labels: "com net org pp" },
    Row { tld: "sg", bare: true, labels: "com edu gov net org" },
    Row { tld: "sh", bare: true, labels: "com edu gov mil net org" },
    Row { tld: "sv", bare: true, labels: "co" },
    Row { tld: "sy", bare: true, labels: "com net org" },
    Row { tld: "th", bare: true, labels: "ac co go in net or" },
    Row { tld: "tn", bare: true, labels: "com edunet ens fin gov ind info intl nat net org rnrt rns rnu tourism" },
    Row { tld: "tr", bare: true, labels: "bbs com edu gov k12 mil net org" },
    Row { tld: "tw", bare: true, labels: "com gove net org" },
    Row { tld: "ua", bare: true, labels: "com gov net" },
    Row { tld: "ug", bare: true, labels: "ac co go or" },
    Row { tld: "uk", bare: true, labels: "ac co gov ltd me mod net nhs nic org plc police sch" },
    Row {
        tld: "us",
        bare: true,
        labels: "ak al ar az ca co ct dc de fed fl ga hi ia id il in isa kids ks ky la ma md me mi mn mo ms mt nc nd ne nh nj nm nsn nv ny oh ok or pa ri sc sd tn tx ut va vt wa wi wv wy",
    },
    Row { tld: "uy", bare: true, labels: "com edu net org" },
    Row { tld: "ve", bare: true, labels: "arts bib co com edu firm gov info int mil net nom org rec store tec web" },
    Row { tld: "vi", bare: true, labels: "co net org" },
    Row { tld: "ws", bare: true, labels: "" },
    Row { tld: "yu", bare: true, labels: "ac co edu org" },
    Row { tld: "za", bare: true, labels: "ac alt co edu gov mil net ngo nom org school tm web" },
];

/// Suffixes of three labels below which names are registered.
const LONG_SUFFIXES: &[&str] = &["sf.ca.us", "site.voila.fr"];

/// A suffix that the client's table lists without its leading dot. It therefore matches every name that ends like this,
/// such as `fooedu.au`.
const DOTLESS_SUFFIX: &str = "edu.au";

/// One top-level domain of [`TABLE`].
struct Row {
    tld: &'static str,
    bare: bool,
    labels: &'static str,
}

/// Returns the registered domain of `host`, or the whole host if the table has no matching entry.
pub(super) fn registered(host: &str) -> &str {
    if host.ends_with(DOTLESS_SUFFIX) {
        return DOTLESS_SUFFIX;
    }
    if let Some(domain) = LONG_SUFFIXES.iter().find_map(|suffix| below(host, suffix)) {
        return domain;
    }
    let Some((rest, tld)) = host.rsplit_once('.') else { return host };
    let Some(row) = TABLE.iter().find(|row| row.tld == tld) else { return host };
    let label = last_label(rest);
    let long = last_labels(host, 2).filter(|_| row.labels.split_whitespace().any(|listed| listed == label));
    let long = long.and_then(|suffix| below(host, suffix));
    let short = below(host, tld).filter(|_| row.bare);
    long.or(short).unwrap_or(host)
}

/// Returns `suffix` together with the label before it in `host`. Returns `None` if this label is empty or missing.
fn below<'a>(host: &'a str, suffix: &str) -> Option<&'a str> {
    let rest = host.strip_suffix(suffix)?.strip_suffix('.')?;
    let label = last_label(rest);
    (!label.is_empty()).then(|| host.get(rest.len() - label.len()..)).flatten()
}

fn last_label(host: &str) -> &str {
    host.rsplit('.').next().unwrap_or(host)
}

/// Returns the last `count` labels of `host`.
fn last_labels(host: &str, count: usize) -> Option<&str> {
    let length: usize = host.rsplit('.').take(count).map(|label| label.len() + 1).sum();
    host.get(host.len().checked_sub(length.checked_sub(1)?)?..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_has_all_entries() {
        assert!(TABLE.is_sorted_by_key(|row| row.tld));
        let labels: usize = TABLE.iter().map(|row| row.labels.split_whitespace().count()).sum();
        assert_eq!((TABLE.len(), labels), (76, 465));
    }

    #[test]
    fn empty_labels_are_not_registered() {
        for (host, domain) in [
            ("", ""),
            (".", "."),
            ("com", "com"),
            (".com", ".com"),
            ("a..com", "a..com"),
            ("a.b..com", "a.b..com"),
            (".co.uk", "co.uk"),
            ("a..co.uk", "co.uk"),
            (".co.kr", ".co.kr"),
            ("fooedu.au", "edu.au"),
            ("foo.", "foo."),
            (".sf.ca.us", "sf.ca.us"),
            ("x.a.sf.ca.us", "a.sf.ca.us"),
        ] {
            assert_eq!(registered(host), domain, "{host}");
        }
    }
}
