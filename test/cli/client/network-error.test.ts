import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import { explainNetworkError } from '../../../lib/cli/client/network-error.js'

const attempt = { address: 'https://deploy.test/a', host: 'deploy.test', proxy: null }
const cases: Array<[code: string, sentence: RegExp]> = [
  ['ECONNREFUSED', /connection refused by https:\/\/deploy\.test\/a\. Start the server with "svc serve"/],
  ['ENOTFOUND', /host not found: "deploy\.test"\. Check the address/],
  ['EAI_AGAIN', /temporary failure in name resolution: /],
  ['ETIMEDOUT', /did not answer in time/],
  ['ECONNRESET', /closed the connection/],
  ['CERT_HAS_EXPIRED', /has expired/],
  ['SELF_SIGNED_CERT_IN_CHAIN', /NODE_EXTRA_CA_CERTS/],
  ['ERR_TLS_CERT_ALTNAME_INVALID', /not valid for "deploy\.test"/],
  ['EPROTO', /does not speak TLS on that port\. For plain HTTP, use "http:\/\/deploy\.test\/a"/],
  ['HPE_INVALID_CONSTANT', /does not speak HTTP/]
]

for (const [code, sentence] of cases) {
  t.test(`explainNetworkError: ${code}`, async t => {
    const cause = Object.assign(new Error('low-level'), { code })
    const refusal = explainNetworkError(cause, attempt)
    t.type(refusal, Refusal)
    t.match(refusal, { kind: 'unavailable', code: 'unreachable', message: sentence, cause })
  })
}

t.test('explainNetworkError names the proxy that does not answer', async t => {
  const refusal = explainNetworkError(Object.assign(new Error(), { code: 'ECONNREFUSED' }), {
    ...attempt,
    proxy: 'proxy:3128'
  })
  t.match(refusal, { message: /connection refused by the proxy proxy:3128\./ })
})

t.test('explainNetworkError passes on errors that are not network failures', async t => {
  const bug = new TypeError('a bug')
  t.equal(explainNetworkError(bug, attempt), bug)
  const refusal = new Refusal('invalid', 'x', 'y')
  t.equal(explainNetworkError(refusal, attempt), refusal)
})
