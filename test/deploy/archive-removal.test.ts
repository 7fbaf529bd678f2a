import { existsSync } from 'node:fs'
import t from 'tap'
import { createFiles } from '../../lib/deploy/files.js'
import { rolledOut } from '../../lib/deploy/retention.js'
import { insertDeployment } from '../../lib/store/tables/deployments.js'
import { insertRollout } from '../../lib/store/tables/rollouts.js'
import { aDeployment } from '../store/stage.js'
import { admin as ana, deployStage } from '../support/deploy-stage.js'
import { aRollout, openFleet } from '../support/fleet-stage.js'

t.test('deletes one archive, and says so in the record, the audit log and a rollback', async t => {
  const stage = await deployStage(t)
  const files = createFiles(stage.home)
  stage.values.keep_undo = 1
  const project = await stage.addProject()
  const ids: string[] = []
  for (const a of ['1', '2', '3']) ids.push((await stage.deploy(project, { a })).id)
  const [first, second, third] = ids as [string, string, string]
  const remove = (id: string, force = false) => stage.deployer.deleteArchive(id, { force, actor: ana })
  const needed = (message: RegExp) => ({ kind: 'conflict', code: 'archive_needed', message })

  await t.rejects(remove('dep_unknown'), { code: 'not_found' })
  await t.rejects(remove(third, true), needed(/its files are in the target/), 'it is live')
  await t.rejects(remove(second), needed(new RegExp(`exact undo of deployment ${third} needs it`)))
  const { row, freedBytes } = await remove(first)
  t.match(row, { id: first, hasArtifact: false })
  t.ok(freedBytes > 0)
  t.match(stage.kept.at(-1), [project.id, 0], 'it had no files of scripts')
  t.ok(stage.kept.some(([id, bytes]) => id === project.id && bytes === -freedBytes))
  t.equal(stage.row(first).hasArtifact, false)
  t.notOk(existsSync(files.archive(first)))
  t.ok(existsSync(files.output(first)))
  t.match(stage.audits.at(-1), { action: 'deployment.delete_archive', target: first, actor: ana, detail: null })
  await t.rejects(stage.deployer.rollback(first, { actor: ana }), { code: 'no_archive', message: /Cannot roll back/ })
  await t.rejects(remove(first), { code: 'no_archive', message: /Cannot delete/ })

  t.match(stage.deployer.exactWindow(project.id), { undo: { deployId: third } })
  await remove(second, true)
  t.match(stage.audits.at(-1), { detail: 'forced' })
  t.match(stage.deployer.exactWindow(project.id), { undo: null }, 'the way back is given up')
})

t.test('keeps the archive of a deployment that is in progress', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'sleep 300' })
  const run = await stage.push(project, { a: '1' })
  await t.rejects(stage.deployer.deleteArchive(run.deployId, { force: true, actor: ana }), { code: 'not_finished' })
  await stage.deployer.cancel(run.deployId, ana)
  await stage.deployer.deleteArchive(run.deployId, { force: false, actor: ana })
  t.equal(stage.row(run.deployId).hasArtifact, false)
})

t.test('nodes still get the last rollout, and after its revert the one before', async t => {
  const { store } = await openFleet(t)
  t.same([...rolledOut(store, 'proj_a')], [])
  const add = (number: number, state: 'done' | 'reverted') =>
    store.write(tx => {
      insertDeployment(tx, { ...aDeployment({ id: `dep_${number}`, projectId: 'proj_a' }), hasArtifact: true })
      insertRollout(tx, aRollout({ id: `ro_${number}`, number, deployId: `dep_${number}`, state }))
    })
  await add(1, 'done')
  await add(2, 'done')
  t.same([...rolledOut(store, 'proj_a')], ['dep_2'])
  await add(3, 'reverted')
  t.same([...rolledOut(store, 'proj_a')], ['dep_3', 'dep_2'])
})
