import t from 'tap'
import { createRelayedCallers, relayedHeaders } from '../../lib/auth/relayed-callers.js'

const caller = { name: 'token:Zoë', role: 'viewer' as const, projects: ['proj_a'], seesScripts: false }

t.test('only requests with the secret of the process are relayed ones', async t => {
  const callerOf = createRelayedCallers('secret')
  t.strictSame(callerOf(relayedHeaders('secret', caller)), { ...caller, name: 'hub:token:Zoë' })
  t.equal(callerOf(relayedHeaders('other', caller)), null)
  t.equal(callerOf({}), null)
  t.throws(() => callerOf(relayedHeaders('secret', { ...caller, role: 'local' as never })), /unknown role/)
})
