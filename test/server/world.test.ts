import t from 'tap'
import { requiresSignatures, trustsClock } from '../../lib/server/world.js'

t.test('the owner of the machine demands signatures by an option or by the environment', async t => {
  t.equal(requiresSignatures({ environment: {} }), false)
  t.equal(requiresSignatures({ requireSignatures: true, environment: {} }), true)
  t.equal(requiresSignatures({ environment: { SVC_REQUIRE_SIGNATURES: '1' } }), true)
  t.equal(requiresSignatures({ environment: { SVC_REQUIRE_SIGNATURES: '0' } }), false)
  t.equal(requiresSignatures({ environment: { SVC_REQUIRE_SIGNATURES: 'true ' } }), true)
  for (const value of ['yes', 'on', 'TRUE'])
    t.throws(() => requiresSignatures({ environment: { SVC_REQUIRE_SIGNATURES: value } }), { code: 'invalid_switch' })
})

t.test('the owner of the machine says that its clock is right', async t => {
  t.equal(trustsClock({}), false)
  t.equal(trustsClock({ SVC_TRUST_CLOCK: '1' }), true)
  t.equal(trustsClock({ SVC_TRUST_CLOCK: '0' }), false)
  t.throws(() => trustsClock({ SVC_TRUST_CLOCK: 'yes' }), { code: 'invalid_switch' })
})
