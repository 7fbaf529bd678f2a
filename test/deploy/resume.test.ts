import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { appendFile, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { listDeployments, liveDeployment } from '../../lib/store/tables/deployments.js'
import { bare } from '../support/bare.js'
import { admin, deployStage } from '../support/deploy-stage.js'
import { contentsOf, leftIn, stepsOf } from '../support/held.js'
import { repetitions } from '../support/thorough.js'
import { until } from '../support/until.js'

t.test('a stopping server leaves a deployment open, and the next start continues it', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { 'a.txt': '1' })
  const run = await stage.push(project, { 'a.txt': '2' }, { confirmSeconds: 60 })
  await until(() => stage.row(run.deployId).heldFor === 'confirm' && stage.deployer.confirmUntil(run.deployId) !== null)
  await stage.deployer.stop({ wait: true })
  t.match(stage.row(run.deployId), { status: 'running', heldFor: 'confirm' })
  const restarted = await stage.restart()
  const { deployId } = run
  await until(() => restarted.deployer.confirmUntil(deployId) !== null)
  t.ok(
    Math.abs(
      Date.parse(restarted.deployer.confirmUntil(deployId) as string) -
        Date.parse(restarted.row(deployId).holdUntil as string)
    ) < 50
  )
  const row = await restarted.deployer.confirm(deployId, admin)
  t.match(row, { status: 'success', placed: 2 })
  t.strictSame(stepsOf(restarted, deployId), [
    'store success',
    'target success',
    'preDeploy skipped',
    'extract success',
    'postDeploy skipped',
    'confirm success',
    'cleanup success'
  ])
  t.equal(await contentsOf(project), '2')
  t.strictSame(await leftIn(restarted, project), [])
  t.strictSame(restarted.faults, [])
})

t.test('a start puts a deployment back whose window has ended', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ postDeployScript: 'echo "mode $SVC_DEPLOY_MODE"' })
  await stage.deploy(project, { 'a.txt': '1' })
  const run = await stage.push(project, { 'a.txt': '2' }, { confirmSeconds: 1 })
  await until(() => stage.row(run.deployId).heldFor === 'confirm' && stage.deployer.confirmUntil(run.deployId) !== null)
  await stage.deployer.stop({ wait: true })
  await appendFile(join(project.deployPath, 'a.txt'), ' edited')
  await until(() => Date.now() > Date.parse(stage.row(run.deployId).holdUntil as string))
  const restarted = await stage.restart()
  await until(() => restarted.row(run.deployId).status === 'failed')
  t.match(restarted.row(run.deployId), { revertReason: 'confirm', revertedAt: /Z$/, placed: null })
  t.match(await restarted.output(run.deployId), 'mode revert')
  t.equal(await contentsOf(project), '1')
  t.equal(await contentsOf(project, `.svc-displaced-${run.deployId}/a.txt`), '2 edited')
})

const child = fileURLToPath(new URL('../support/held-child.js', import.meta.url))

for (const action of ['confirm', 'revert', 'expire'] as const) {
  t.test(`after a kill at any write of a record, files and record agree: ${action}`, async t => {
    const seen = { new: 0, old: 0 }
    for (let n = 1; ; n += repetitions(5, 1)) {
      const directory = await mkdtemp(join(tmpdir(), 'svc-held-'))
      const first = await deployStage({ teardown: () => {} } as unknown as Test, directory)
      const project = await first.addProject({ postDeployScript: 'echo "mode $SVC_DEPLOY_MODE"' })
      const { id: firstId } = await first.deploy(project, { 'a.txt': '1' })
      await first.deployer.stop({ wait: true })
      await first.store.close()
      const killed = spawn(...bare(process.execPath, [child, directory, project.id, action, String(n)]), {
        stdio: ['ignore', 'ignore', 'inherit']
      })
      const [code, signal] = (await once(killed, 'exit')) as [number | null, string | null]
      const stage = await deployStage(t, directory)
      const [row] = listDeployments(stage.store, { projectId: project.id, limit: 1 })
      const id = row?.id ?? firstId
      await until(() => stage.row(id).status !== 'running' || stage.deployer.confirmUntil(id) !== null)
      if (stage.deployer.confirmUntil(id) !== null) {
        if (n % 4 < 2) await stage.deployer.confirm(id, admin)
        else await stage.deployer.revert(id, admin)
      }
      const { status, placed, revertedAt, heldFor, holdUntil } = stage.row(id)
      const isNew = (await contentsOf(project)) === '2'
      seen[isNew ? 'new' : 'old']++
      const what = `write ${n}: ${status}, placed ${placed}, reverted at ${revertedAt}`
      t.equal(isNew && id !== firstId, placed !== null && id !== firstId, what)
      t.equal(existsSync(join(project.deployPath, 'new')), isNew, `${what}: a new directory`)
      t.strictSame([heldFor, holdUntil], [null, null], what)
      t.equal(liveDeployment(stage.store, project.id)?.id, isNew ? id : firstId, what)
      t.strictSame(await leftIn(stage, project), [], what)
      if (signal === null) {
        t.equal(code, 0)
        break
      }
    }
    t.ok(seen.old > 0 && (action !== 'confirm' || seen.new > 0), JSON.stringify(seen))
  })
}
