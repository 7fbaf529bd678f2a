/* Keys that sign releases, and statements with their signatures, which go with their deployments. */
import t from 'tap'
import {
  countSequence,
  countsSequence,
  deploymentsSignedBy,
  findAttestation,
  findSigningKey,
  firstAccepted,
  highestSequence,
  highestSequences,
  insertSigningKey,
  listSigningKeys,
  putAttestation,
  raiseSequence,
  uncountSequence,
  updateSigningKey
} from '../../../../lib/core/store/tables/signing-keys.js'
import {
  deleteDeploymentsOf,
  insertDeployment,
  updateDeployment
} from '../../../../lib/core/store/tables/deployments.js'
import { insertProject } from '../../../../lib/core/store/tables/projects.js'
import { aKey } from '../../../support/signed-releases.js'
import { aDeployment, aProject, aStore } from '../stage.js'

t.test('keys are listed by name and changed', async t => {
  const store = await aStore(t)
  const [bo, ana] = [aKey('bo', { projectIds: ['proj_a'] }).row, aKey('Ana').row]
  await store.write(tx => [bo, ana].map(row => insertSigningKey(tx, row)))
  t.strictSame(listSigningKeys(store), [ana, bo])
  await store.write(tx => updateSigningKey(tx, ana.id, { revokedAt: '2026-01-02' }))
  t.equal(findSigningKey(store, ana.id)?.revokedAt, '2026-01-02')
  await t.rejects(
    store.write(tx => insertSigningKey(tx, { ...ana, id: 'key_x' })),
    'a key is in the list once'
  )
})

t.test('statements, and the deployments of a key', async t => {
  const store = await aStore(t)
  const signed = [{ key: 'key_a', name: 'ana', fingerprint: 'SHA256:x' }]
  const claim = { sha256: 'a', sequence: 7, notAfter: null, builder: null, sbomSha256: null }
  const row = (id: string, startTime: string, isSigned: boolean) =>
    aDeployment({
      id,
      projectId: 'proj_a',
      startTime,
      ...(isSigned && { signedBy: signed, statement: claim, placed: 1 })
    })
  await store.write(tx => {
    insertProject(tx, aProject({ id: 'proj_a' }))
    insertDeployment(tx, row('dep_1', '2026-01-01T00:00:00.000Z', true))
    insertDeployment(tx, row('dep_2', '2026-01-02T00:00:00.000Z', false))
  })
  const ids = (since: string | null) =>
    deploymentsSignedBy(store, { id: 'key_a', since, limit: 10 }).map(({ id }) => id)
  t.strictSame(ids(null), ['dep_1'])
  t.strictSame(ids('2026-01-02'), [])
  const kept = { deployId: 'dep_1', statement: '{}', signatures: ['x'], acceptedAt: '2026-01-01T00:00:00.000Z' }
  await store.write(tx => putAttestation(tx, kept))
  t.strictSame(findAttestation(store, 'dep_1'), kept)
  t.equal(firstAccepted(store, 'proj_a', '{}'), kept.acceptedAt)
  t.equal(firstAccepted(store, 'proj_b', '{}'), undefined)
  t.equal(highestSequence(store, 'proj_a'), null, 'not before its files are in place')
  await store.write(tx => countSequence(tx, 'dep_1'))
  t.equal(highestSequence(store, 'proj_a'), 7)
  t.equal(highestSequence(store, 'proj_b'), null)
  t.strictSame(highestSequences(store), { proj_a: 7 })
  // A restore knows of later releases, whose records are gone.
  await store.write(tx => insertProject(tx, aProject({ id: 'proj_b', name: 'b', deployPath: '/srv/b' })))
  for (const [project, given, highest] of [
    ['proj_a', 6, 7],
    ['proj_a', 9, 9],
    ['proj_a', 8, 9],
    ['proj_b', 5, 5],
    ['proj_gone', 5, null]
  ] as const) {
    await store.write(tx => raiseSequence(tx, project, given))
    t.equal(highestSequence(store, project), highest)
  }
  // What becomes of the record later changes nothing.
  await store.write(tx => {
    updateDeployment(tx, 'dep_1', { statement: { ...claim, sequence: 1 }, placed: null, status: 'failed' })
    countSequence(tx, 'dep_1')
  })
  t.equal(highestSequence(store, 'proj_a'), 9)
  t.equal(countsSequence(store, 'dep_1'), true)
  await store.write(tx => uncountSequence(tx, 'dep_1'))
  t.equal(highestSequence(store, 'proj_a'), 9, 'also not that a release is taken back')
  t.strictSame(highestSequences(store), { proj_a: 9, proj_b: 5 })
  await store.write(tx => tx.run('DELETE FROM lostSequences'))
  t.equal(highestSequence(store, 'proj_a'), null)
  await store.write(tx => {
    putAttestation(tx, { ...kept, deployId: 'dep_2' })
    updateDeployment(tx, 'dep_2', { statement: claim })
    countSequence(tx, 'dep_2')
  })
  t.equal(highestSequence(store, 'proj_a'), null, 'a release that no trusted key has signed does not count')
  await store.write(tx => deleteDeploymentsOf(tx, 'proj_a'))
  t.equal(findAttestation(store, 'dep_1'), undefined)
})
