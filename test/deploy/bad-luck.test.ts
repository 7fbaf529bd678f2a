/*
 * What goes wrong around a deployment without anybody's fault: the disk of the data directory is full while copies of
 * replaced files are written or a whole archive is assembled, a bit of a kept archive flips, and the target is unmounted
 * while a deployment waits for its confirmation.
 */
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { pendingReverts } from '../../lib/core/store/tables/deployments.js'
import { admin, deployStage } from '../support/deploy-stage.js'
import { sendChanges } from '../support/changes-stage.js'
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

const large = randomBytes(1_500_000).toString('latin1')

t.test('a disk that is full while a whole archive is assembled loses nothing that is kept', async t => {
  const disk = smallDisk(t, 6_000_000)
  if (disk === null) return
  const places = { deployments: join(disk, 'deployments'), tmp: join(disk, 'tmp') }
  await Promise.all(Object.values(places).map(each => mkdir(each)))
  const stage = await deployStage(t, undefined, places)
  stage.values.share_archives = false
  const project = await stage.addProject()
  const first = await stage.deploy(project, { 'a.txt': 'one', large })
  const filler = join(disk, 'filler')
  const before = (await readdir(places.deployments)).sort()
  const free = Number(execFileSync('df', ['--output=avail', '-B1', disk]).toString().split('\n')[1])
  await writeFile(filler, Buffer.alloc(free - 1_000_000))
  const send = () => sendChanges(stage.deployer, project, { 'a.txt': 'two', large })
  await t.rejects(send(), { code: 'disk_full', message: /Free some space in the data directory/ })
  t.same(await readdir(places.tmp), [])
  t.same((await readdir(places.deployments)).sort(), before)
  t.equal(await contentsOf(project), 'one')
  stage.values.share_archives = true
  t.match(await send(), { status: 'success', reusedFrom: first.id }, 'there is space for what has changed')
  t.equal(await contentsOf(project), 'two')
})

t.test(
  'a flipped bit of a kept archive ends a rollback with its name, and a push of changes as a whole one',
  async t => {
    const stage = await deployStage(t)
    const project = await stage.addProject()
    const text = (word: string): string => Array.from({ length: 300 }, (_, n) => `${word}${n * 7919}`).join(' ')
    const first = await stage.deploy(project, { 'a.txt': text('a'), 'b.txt': text('b') })
    const second = await sendChanges(stage.deployer, project, { 'a.txt': text('a'), 'b.txt': text('other') })
    const third = await sendChanges(stage.deployer, project, { 'a.txt': text('new'), 'b.txt': text('other') })
    const flip = (name: string, at: number): void => {
      const path = join(stage.home.deployments, name)
      const bytes = readFileSync(path)
      bytes.writeUInt8((bytes[at] as number) ^ 16, at)
      writeFileSync(path, bytes)
    }
    const back = async (id: string) => await (await stage.deployer.rollback(id, { actor: admin })).finished
    // The contents of "a.txt" begin after a local header of 30 bytes and the name.
    flip(`${first.id}.zip`, 100)
    for (const id of [first.id, second.id])
      t.match(await back(id), { status: 'failed', placed: null, errorMessage: /a\.txt/ }, id)
    t.equal(await contentsOf(project), text('new'), 'nothing was touched')
    t.match(await back(third.id), { status: 'success' }, 'it needs nothing of that file')
    const next = await sendChanges(stage.deployer, project, { 'a.txt': text('a'), 'b.txt': text('other'), c: 'c' })
    t.match(next, { status: 'success' }, 'what is sent does not depend on it either')
    const pack = `${third.id}.pack`
    // The CRC of its last entry.
    flip(pack, readFileSync(join(stage.home.deployments, pack)).lastIndexOf('PK\x01\x02') + 16)
    t.match(await back(third.id), { status: 'failed', placed: null, errorMessage: /its packs are not those/ })
    await t.rejects(
      sendChanges(stage.deployer, project, { 'a.txt': text('a') }, { deployId: third.id, treeSha256: '' }),
      { code: 'base_gone' },
      'so the client sends everything'
    )
  }
)

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
