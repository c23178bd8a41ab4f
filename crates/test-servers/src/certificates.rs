use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
};

/// The certificate of a server, and the root certificate that signed it.
pub(crate) struct Certificates {
    /// The root certificate in PEM format.
    pub root: String,
    pub server: Certificate,
    pub key: KeyPair,
}

impl Certificates {
    /// Issues certificates. The roots of two servers differ even if their names are equal.
    pub(crate) fn issue(root_name: &str, server_names: &[&str]) -> Self {
        let mut root = CertificateParams::new(Vec::new()).unwrap();
        root.distinguished_name.push(DnType::CommonName, root_name);
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = CertifiedIssuer::self_signed(root, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names: Vec<_> = server_names.iter().map(ToString::to_string).collect();
        let server = CertificateParams::new(names).unwrap().signed_by(&key, &root).unwrap();
        Self { root: root.pem(), server, key }
    }
}
