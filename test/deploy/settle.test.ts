import { appendFile, rename } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { liveDeployment, pendingReverts } from '../../lib/store/tables/deployments.js'
import { admin, deployStage } from '../support/deploy-stage.js'
import { contentsOf, leftIn } from '../support/held.js'
import { until } from '../support/until.js'

t.test('files that were edited meanwhile are kept and listed', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({
    postDeployScript: 'test ! -e b.txt || echo script >> b.txt; echo log > made.log'
  })
  await stage.deploy(project, { 'a.txt': '1', 'b.txt': '1' })
  const run = await stage.push(project, { 'a.txt': '2\n', 'b.txt': '2\n' }, { confirmSeconds: 60 })
  await until(() => stage.deployer.confirmUntil(run.deployId) !== null)
  await appendFile(join(project.deployPath, 'a.txt'), 'edited\n')
  const row = await stage.deployer.revert(run.deployId, admin)
  t.equal(row.revertReason, 'operator')
  const directory = `.svc-displaced-${row.id}`
  t.match(await stage.output(row.id), `→ 1 file edited meanwhile kept in ${directory}: a.txt`)
  t.equal(await contentsOf(project, `${directory}/a.txt`), '2\nedited\n')
  t.equal(await contentsOf(project, 'made.log'), 'log\n')
})

t.test('a revert that fails is reported, and the next start tries again', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const first = await stage.deploy(project, { 'a.txt': '1' })
  const run = await stage.push(project, { 'a.txt': '2' }, { confirmSeconds: 60 })
  await until(() => stage.deployer.confirmUntil(run.deployId) !== null)
  await rename(project.deployPath, `${project.deployPath}-away`)
  const row = await stage.deployer.revert(run.deployId, admin)
  t.match(row, { status: 'failed', revertReason: 'operator', revertedAt: null, placed: 2 })
  t.strictSame(pendingReverts(stage.store), [row.id])
  t.match(row.errorMessage, /^Reverted by admin; the earlier files are not back yet: .* does not exist/)
  t.match(stage.audits.at(-2), { action: 'deployment.revert_failed', target: run.deployId, ok: false })
  await rename(`${project.deployPath}-away`, project.deployPath)
  const restarted = await stage.restart()
  t.match(restarted.row(run.deployId), { status: 'failed', revertReason: 'operator', revertedAt: /Z$/, placed: null })
  t.equal(await contentsOf(project), '1')
  t.match(await restarted.output(run.deployId), 'the earlier files are back after all')
  t.equal(liveDeployment(restarted.store, project.id)?.id, first.id)
  t.strictSame(await leftIn(restarted, project), [])
})
