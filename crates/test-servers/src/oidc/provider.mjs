// Runs `oidc-provider` with one client. Its last argument is JSON: module, port, client, algorithms.
// Each start has keys of its own. `login_hint` of a request is JSON: the subject that signs in, and its claims.
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { pathToFileURL } from 'node:url';

const { module, port, client } = JSON.parse(process.argv.at(-1));
const { Provider } = await import(pathToFileURL(module));

const key = (kind, options, alg) => ({
  ...generateKeyPairSync(kind, options).privateKey.export({ format: 'jwk' }),
  alg,
  kid: randomUUID(),
  use: 'sig',
});
const accounts = new Map();
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [client],
  claims: { openid: ['sub', 'email', 'email_verified'] },
  conformIdTokenClaims: false,
  cookies: { keys: ['a key of tests'] },
  enabledJWA: { idTokenSigningAlgValues: ['HS256', 'RS256', 'PS256', 'ES256'] },
  features: { devInteractions: { enabled: false } },
  findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub, ...accounts.get(sub) }) }),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  jwks: {
    keys: [
      key('rsa', { modulusLength: 2048 }, 'RS256'),
      key('rsa', { modulusLength: 2048 }, 'PS256'),
      key('ec', { namedCurve: 'P-256' }, 'ES256'),
    ],
  },
});

// Signs in whom the request names, and consents, without a page.
provider.use(async (context, next) => {
  if (!context.path.startsWith('/interaction/')) return next();
  const { req, res } = context;
  const { params, prompt, session } = await provider.interactionDetails(req, res);
  let result;
  if (prompt.name === 'login') {
    const { sub, claims } = JSON.parse(params.login_hint);
    accounts.set(sub, claims);
    result = { login: { accountId: sub } };
  } else {
    const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    grant.addOIDCScope('openid');
    result = { consent: { grantId: await grant.save() } };
  }
  context.respond = false;
  await provider.interactionFinished(req, res, result, { mergeWithLastSubmission: true });
});
provider.listen(port, '127.0.0.1');
