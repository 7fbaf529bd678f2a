/*
 * What goes wrong around a deployment without anybody's fault: the disk of the data directory is full while copies of
 * replaced files are written, and the target is unmounted while a deployment waits for its confirmation.
 */
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { pendingReverts } from '../../lib/core/store/tables/deployments.js'
import { admin, deployStage } from '../support/deploy-stage.js'
import { contentsOf, leftIn } from '../support/held.js'
import { smallDisk } from '../support/small-disk.js'
import { until } from '../support/until.js'

for (const exact of ['best', 'required'] as const) {
  t.test(`a data directory that fills up while files are copied changes nothing, ${exact}`, async t => {
    const deployments = smallDisk(t, 3_000_000)
    if (deployments === null) return
    const stage = await deployStage(t, undefined, { deployments })
    const project = await stage.addProject({ policy: { exact } })
    await mkdir(project.deployPath, { recursive: true })
    const own = randomBytes(8_000_000)
    await writeFile(join(project.deployPath, 'large.bin'), own)
    await writeFile(join(project.deployPath, 'a.txt'), 'mine')
    const row = await stage.deploy(project, { 'large.bin': 'small', 'a.txt': 'new', 'b.txt': 'new' })
    t.match(row, { status: 'failed', placed: null, errorMessage: /space|full/i })
    t.same((await readdir(project.deployPath)).sort(), ['a.txt', 'large.bin'])
    t.ok(own.equals(await readFile(join(project.deployPath, 'large.bin'))), 'the same bytes')
    t.equal(await contentsOf(project), 'mine')
    t.same(await leftIn(stage, project), [])
    const kept = await readdir(deployments)
    t.same(
      kept.filter(name => /\.(before\.zip|undo|tmp)$/.test(name)),
      []
    )

    const next = await stage.deploy(project, { 'a.txt': 'new' })
    t.equal(next.status, 'success', 'there is space for the small file')
  })
}

t.test('a target that is unmounted while a deployment waits is not written to, and goes back later', async t => {
  const stage = await deployStage(t)
  const disk = await mkdtemp(join(tmpdir(), 'svc-disk-'))
  const project = await stage.addProject()
  await mkdir(project.deployPath, { recursive: true })
  const mount = () => execFileSync('mount', ['--bind', disk, project.deployPath], { stdio: 'pipe' })
  const unmount = () => execFileSync('umount', ['-l', project.deployPath], { stdio: 'pipe' })
  try {
    mount()
  } catch (error) {
    t.comment(`left out, nothing can be mounted: ${(error as { stderr: Buffer }).stderr}`)
    return
  }
  let isMounted = true
  try {
    await stage.deploy(project, { 'a.txt': '1' })
    const run = await stage.push(project, { 'a.txt': '2', 'b.txt': '2' }, { confirmSeconds: 60 })
    await until(() => stage.deployer.confirmUntil(run.deployId) !== null)
    unmount()
    isMounted = false
    const row = await stage.deployer.revert(run.deployId, admin)
    t.match(row, { status: 'failed', revertReason: 'operator', revertedAt: null })
    t.match(
      row.errorMessage,
      /^Reverted by admin; the earlier files are not back yet: .* does not exist, or its path leads to another one/
    )
    t.same(await readdir(project.deployPath), [], 'the directory below the mount point stays as it was')
    t.same(pendingReverts(stage.store), [row.id])

    mount()
    isMounted = true
    const restarted = await stage.restart()
    t.match(restarted.row(run.deployId), { revertedAt: /Z$/, placed: null })
    t.equal(await contentsOf(project), '1')
    t.same(await readdir(project.deployPath), ['a.txt'])
    t.same(await leftIn(restarted, project), [])
  } finally {
    if (isMounted) unmount()
    await rm(disk, { recursive: true, force: true })
  }
})
