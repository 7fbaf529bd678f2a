/* Trusting and revoking keys: names that are confused, and what a leaked key has signed. */
import t from 'tap'
import { randomIds } from '../../lib/base/digests.js'
import { createSigningKeys } from '../../lib/projects/signing-keys.js'
import { insertDeployment } from '../../lib/core/store/tables/deployments.js'
import { insertProject } from '../../lib/core/store/tables/projects.js'
import type { AuditEvent } from '../../lib/model/audit.js'
import { systemClock } from '../../lib/base/clock.js'
import { aDeployment, aProject, aStore } from '../core/store/stage.js'
import { aKey } from '../support/signed-releases.js'

const actor = { name: 'admin', ip: null }
const line = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMfdjxhFxX7lIRRULCcTKu/vFKhZOdeq4WVbLnYAzbOI'

t.test('keys are trusted, and revoked as of a time', async t => {
  const store = await aStore(t)
  const audits: AuditEvent[] = []
  const audit = { within: (_: unknown, event: AuditEvent) => void audits.push(event) }
  const keys = createSigningKeys({ store, clock: systemClock, ids: randomIds, audit })
  const ana = await keys.trust({ public: `${line} ana@laptop` }, actor)
  t.match(ana, { kind: 'ssh', name: 'ana@laptop', fingerprint: /^SHA256:/, revokedAt: null })
  await t.rejects(keys.trust({ public: line, name: 'other' }, actor), { code: 'key_trusted' })
  for (const name of ['ANA@laptop', 'ana@1aptop', 'ana@ laptop'])
    await t.rejects(keys.trust({ public: aKey('x').row.public, name }, actor), { code: 'key_name_taken' }, name)
  await t.rejects(keys.trust({ public: aKey('x').row.public, name: 'аna' }, actor), { code: 'invalid_field' })
  await t.rejects(keys.trust({ public: aKey('x').row.public }, actor), { code: 'invalid_field' }, 'it has no name')
  await t.rejects(keys.trust({ public: 'ssh-rsa AAAA' }, actor), { code: 'key_unreadable' })
  const missing = { public: aKey('x').row.public, name: 'x', projectIds: ['proj_x'] }
  await t.rejects(keys.trust(missing, actor), { code: 'not_found' })
  const fromLine = `bo valid-before="20270101Z" ${line.slice(0, -1)}J`
  t.match(await keys.trust({ public: fromLine }, actor), { name: 'bo', notAfter: '2027-01-01T00:00:00.000Z' })

  const startTime = '2026-05-01T00:00:00.000Z'
  await store.write(tx => {
    insertProject(tx, aProject({ id: 'proj_a' }))
    const signedBy = [{ key: ana.id, name: ana.name, fingerprint: ana.fingerprint }]
    insertDeployment(tx, aDeployment({ id: 'dep_1', projectId: 'proj_a', startTime, signedBy }))
  })
  const since = '2026-04-01T00:00:00.000Z'
  const { key, deployments } = await keys.revoke(ana.id, { since, actor })
  t.equal(key.revokedAt, since)
  t.match(deployments, [{ id: 'dep_1', projectId: 'proj_a', startTime }])
  t.match((await keys.revoke(ana.id, { actor })).key, { revokedAt: since }, 'a later revocation changes nothing')
  t.strictSame((await keys.revoke(ana.id, { since: '2026-06-01T00:00:00.000Z', actor })).deployments, [])
  await t.rejects(keys.revoke('key_x', { actor }), { code: 'not_found' })
  t.match(audits[0], { action: 'signing_key.trust', detail: `ana@laptop ${ana.fingerprint}` })
  t.equal(keys.list().length, 2)
})
