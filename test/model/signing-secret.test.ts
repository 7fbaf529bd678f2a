import t from 'tap'
import { signingSecretFault } from '../../lib/model/signing-secret.js'

const usable = ['', 'any text', 'whsec_TWFu', 'whsec_TWE=', 'whsec_TQ==', 'whsec_TWFuTQ']
const refused = ['whsec_', 'whsec_not base64', 'whsec_TWFu!', 'whsec_T', 'whsec_TQ===', 'whsec_TQ==TWFu']

t.test('requires base64 after "whsec_"', async t => {
  for (const secret of usable) t.equal(signingSecretFault(secret), null, secret)
  for (const secret of refused) t.type(signingSecretFault(secret), 'string', secret)
})
