//! Who is linked with whom, as a file says.
//!
//! ```toml
//! [[router]]
//! name = "edge-1"
//! pages = "pages/edge-1"   # where its pages are, from the place of this file; none if it records nothing
//! links = ["core-1"]       # its neighbours; naming a link at one end is enough
//! rewrites = true          # it makes other packets of some: address translation, IPsec, proxies, ends of tunnels
//!
//! [[router]]
//! name = "core-1"
//! pages = "pages/core-1"
//! ```
//!
//! For mail, `[[server]]` is the same.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::page::{NAME_BYTES_MAX, ensure_name};

/// The longest file.
pub const TOPOLOGY_BYTES_MAX: usize = 1 << 20;
/// Most routers or servers.
pub const ROUTERS_MAX: usize = 4096;
/// Most links.
pub const LINKS_MAX: usize = 32_768;

/// Routers or servers, and their links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    routers: Vec<Router>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    /// Its name, which its pages say too.
    pub name: String,
    /// Where its pages are, if it records.
    pub pages: Option<PathBuf>,
    /// Its neighbours, by their places in the list.
    pub links: Vec<usize>,
    /// Whether packets that pass it may have another digest on its other side: it translates addresses, encrypts, or
    /// puts packets into tunnels or takes them out.
    pub rewrites: bool,
}

/// Why a topology was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// It is longer than [`TOPOLOGY_BYTES_MAX`].
    #[error("it has more than {TOPOLOGY_BYTES_MAX} bytes")]
    TooLong,
    /// It is no TOML, or has other fields.
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    /// A name is none.
    #[error("{0:?} is no name: names are 1 to {NAME_BYTES_MAX} bytes of visible text without blanks")]
    Name(String),
    /// A name is there twice.
    #[error("{0:?} is there twice")]
    Twice(String),
    /// A link leads nowhere, or back.
    #[error("{from:?} is linked with {to:?}, which is itself or not there")]
    Link {
        /// Who names the link.
        from: String,
        /// The other end.
        to: String,
    },
    /// There are none, or too many.
    #[error("there are {0} routers, and 1 to {ROUTERS_MAX} are allowed")]
    Routers(usize),
    /// There are too many.
    #[error("there are more than {LINKS_MAX} links")]
    Links,
}

/// The file as it is written.
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
    /// Reads a topology; directories that it names are looked for in `folder`.
    ///
    /// # Errors
    /// [`TopologyError`] names the first fault.
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

    /// All routers.
    #[must_use]
    pub fn routers(&self) -> &[Router] {
        &self.routers
    }

    /// The place of the router of that name.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.routers.iter().position(|router| router.name == name)
    }
}

/// The places of all names.
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

/// The neighbours of every router, whichever end named the link.
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
    fn servers_are_as_good() {
        assert_eq!(parse("[[server]]\nname = 'a'\n").unwrap(), parse("[[router]]\nname = 'a'\n").unwrap());
    }

    #[test]
    fn faults_are_named() {
        let twice = "[[router]]\nname = 'a'\n".repeat(2);
        assert_eq!(refusal(&twice), "\"a\" is there twice");
        let link = |to: &str| refusal(&format!("[[router]]\nname = 'a'\nlinks = ['{to}']\n"));
        assert_eq!(link("b"), "\"a\" is linked with \"b\", which is itself or not there");
        assert_eq!(link("a"), "\"a\" is linked with \"a\", which is itself or not there");
        assert!(refusal("[[router]]\nname = 'a b'\n").starts_with("\"a b\" is no name"));
        assert!(refusal("[[router]]\nname = 'a'\nlink = []\n").contains("unknown field `link`"));
        assert!(refusal("router = []").starts_with("there are 0 routers"));
    }

    #[test]
    fn a_topology_has_bounds() {
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
