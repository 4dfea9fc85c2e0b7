//! Topology files: routers or servers and their links.
//!
//! ```toml
//! [[router]]
//! name = "edge-1"
//! pages = "pages/edge-1"   # its page directory, relative to this file; omit if it records nothing
//! links = ["core-1"]       # its neighbours; naming a link at one end is enough
//! rewrites = true          # it changes packets: address translation, IPsec, proxies, ends of tunnels
//!
//! [[router]]
//! name = "core-1"
//! pages = "pages/core-1"
//! ```
//!
//! For mail, `[[server]]` entries have the same fields.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::page::{NAME_BYTES_MAX, ensure_name};

/// Maximum length of the file.
pub const TOPOLOGY_BYTES_MAX: usize = 1 << 20;
/// Maximum number of routers or servers.
pub const ROUTERS_MAX: usize = 4096;
/// Maximum number of links.
pub const LINKS_MAX: usize = 32_768;

/// Routers or servers, and their links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    routers: Vec<Router>,
}

/// A router or server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    /// Name of the router. It must be the name in the router's pages.
    pub name: String,
    /// Directory of the router's pages, if it records any.
    pub pages: Option<PathBuf>,
    /// Indices of the router's neighbours.
    pub links: Vec<usize>,
    /// True if a packet may leave the router with another digest, because the router translates addresses, encrypts, or
    /// is the end of a tunnel.
    pub rewrites: bool,
}

/// An error in a topology.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// The file is longer than [`TOPOLOGY_BYTES_MAX`].
    #[error("longer than {TOPOLOGY_BYTES_MAX} bytes")]
    TooLong,
    /// The file is not TOML, or has unknown fields.
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    /// A name is invalid.
    #[error("invalid name {0:?}: expected 1 to {NAME_BYTES_MAX} bytes of visible text without blanks")]
    Name(String),
    /// A name occurs twice.
    #[error("duplicate name {0:?}")]
    Twice(String),
    /// A link leads to an unknown name, or from a router to itself.
    #[error("invalid link from {from:?} to {to:?}: unknown name, or both ends are the same")]
    Link {
        /// Router that lists the link.
        from: String,
        /// The other end of the link.
        to: String,
    },
    /// There are no routers, or too many.
    #[error("expected 1 to {ROUTERS_MAX} routers, found {0}")]
    Routers(usize),
    /// There are too many links.
    #[error("more than {LINKS_MAX} links")]
    Links,
}

/// The file, as deserialised.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTopology {
    #[serde(alias = "server")]
    router: Vec<RawRouter>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRouter {
    name: String,
    pages: Option<PathBuf>,
    #[serde(default)]
    links: Vec<String>,
    #[serde(default)]
    rewrites: bool,
}

impl Topology {
    /// Parses a topology. Relative directories are resolved against `folder`.
    ///
    /// # Errors
    /// [`TopologyError`] for the first problem that is found.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, TopologyError> {
        if text.len() > TOPOLOGY_BYTES_MAX {
            return Err(TopologyError::TooLong);
        }
        let raw: RawTopology = toml::from_str(text)?;
        if !(1..=ROUTERS_MAX).contains(&raw.router.len()) {
            return Err(TopologyError::Routers(raw.router.len()));
        }
        let places = places(&raw.router)?;
        let links = links(&raw.router, &places)?;
        let router = |(raw, links): (RawRouter, BTreeSet<usize>)| Router {
            name: raw.name,
            pages: raw.pages.map(|pages| folder.join(pages)),
            links: links.into_iter().collect(),
            rewrites: raw.rewrites,
        };
        Ok(Self { routers: raw.router.into_iter().zip(links).map(router).collect() })
    }

    /// Returns all routers.
    #[must_use]
    pub fn routers(&self) -> &[Router] {
        &self.routers
    }

    /// Returns the index of the router with this name.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.routers.iter().position(|router| router.name == name)
    }
}

/// Returns the indices of all names.
fn places(routers: &[RawRouter]) -> Result<HashMap<String, usize>, TopologyError> {
    let mut places = HashMap::new();
    for (place, router) in routers.iter().enumerate() {
        ensure_name(&router.name).map_err(|_| TopologyError::Name(router.name.clone()))?;
        if places.insert(router.name.clone(), place).is_some() {
            return Err(TopologyError::Twice(router.name.clone()));
        }
    }
    Ok(places)
}

/// Returns the neighbours of every router. A link may be listed at either end.
fn links(routers: &[RawRouter], places: &HashMap<String, usize>) -> Result<Vec<BTreeSet<usize>>, TopologyError> {
    if routers.iter().map(|router| router.links.len()).sum::<usize>() > LINKS_MAX {
        return Err(TopologyError::Links);
    }
    let mut links = vec![BTreeSet::new(); routers.len()];
    for (from, router) in routers.iter().enumerate() {
        for name in &router.links {
            let to = places.get(name).copied().filter(|to| *to != from);
            let to = to.ok_or_else(|| TopologyError::Link { from: router.name.clone(), to: name.clone() })?;
            links[from].insert(to);
            links[to].insert(from);
        }
    }
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Topology, TopologyError> {
        Topology::parse(text, Path::new("/here"))
    }

    fn refusal(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn links_have_two_ends() {
        let topology = parse(
            "[[router]]\nname = 'a'\npages = 'pages/a'\nlinks = ['b', 'c']\n[[router]]\nname = 'b'\nlinks = ['a']\n\
             [[router]]\nname = 'c'\npages = '/elsewhere'\n",
        )
        .unwrap();
        let links: Vec<_> = topology.routers().iter().map(|router| router.links.clone()).collect();
        assert_eq!(links, [vec![1, 2], vec![0], vec![0]]);
        let pages: Vec<_> = topology.routers().iter().map(|router| router.pages.clone()).collect();
        assert_eq!(pages, [Some("/here/pages/a".into()), None, Some("/elsewhere".into())]);
        assert_eq!((topology.place("c"), topology.place("d")), (Some(2), None));
    }

    #[test]
    fn servers_are_accepted_as_routers() {
        assert_eq!(parse("[[server]]\nname = 'a'\n").unwrap(), parse("[[router]]\nname = 'a'\n").unwrap());
    }

    #[test]
    fn faults_are_named() {
        let twice = "[[router]]\nname = 'a'\n".repeat(2);
        assert_eq!(refusal(&twice), "duplicate name \"a\"");
        let link = |to: &str| refusal(&format!("[[router]]\nname = 'a'\nlinks = ['{to}']\n"));
        assert_eq!(link("b"), "invalid link from \"a\" to \"b\": unknown name, or both ends are the same");
        assert_eq!(link("a"), "invalid link from \"a\" to \"a\": unknown name, or both ends are the same");
        assert!(refusal("[[router]]\nname = 'a b'\n").starts_with("invalid name \"a b\""));
        assert!(refusal("[[router]]\nname = 'a'\nlink = []\n").contains("unknown field `link`"));
        assert!(refusal("router = []").starts_with("expected 1 to 4096 routers, found 0"));
    }

    #[test]
    fn a_topology_has_limits() {
        let routers = |count: usize| (0..count).map(|n| format!("[[router]]\nname = '{n}'\n")).collect::<String>();
        parse(&routers(ROUTERS_MAX)).unwrap();
        assert!(matches!(parse(&routers(ROUTERS_MAX + 1)), Err(TopologyError::Routers(_))));
        let links = |count: usize| {
            let list = vec!["'b'"; count].join(",");
            parse(&format!("[[router]]\nname = 'a'\nlinks = [{list}]\n[[router]]\nname = 'b'\n"))
        };
        links(LINKS_MAX).unwrap();
        assert!(matches!(links(LINKS_MAX + 1), Err(TopologyError::Links)));
        let router = "[[router]]\nname = 'a'\n";
        let long = |bytes: usize| [router, &" ".repeat(bytes - router.len())].concat();
        parse(&long(TOPOLOGY_BYTES_MAX)).unwrap();
        assert!(matches!(parse(&long(TOPOLOGY_BYTES_MAX + 1)), Err(TopologyError::TooLong)));
    }
}
