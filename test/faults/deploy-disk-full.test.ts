import t from 'tap'
import { appendFileSync, existsSync, writeFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { writeSetting } from '../../lib/core/store/tables/server.js'
import { deployStage, never } from '../support/deploy-stage.js'
import { smallDisk } from '../support/small-disk.js'

const megabyte = 1024 * 1024

t.test('the disk fills while an upload comes in: refused, and nothing is left of it', async t => {
  const disk = smallDisk(t, megabyte)
  if (disk === null) return
  const stage = await deployStage(t, undefined, { deployments: join(disk, 'deployments'), tmp: join(disk, 'tmp') })
  const bytes = Readable.from(Array.from({ length: 64 }, () => Buffer.alloc(64 * 1024)))
  await t.rejects(stage.deployer.receive(bytes, { limitBytes: 100 * megabyte, signal: never }), {
    code: 'disk_full',
    message: /no space left on device/
  })
  t.strictSame(await readdir(stage.home.tmp), [])
  const project = await stage.addProject()
  t.equal((await stage.deploy(project, { 'a.txt': '1' })).status, 'success', 'the room is free again')
})

t.test('a disk that fills while a script prints fails the deployment, and its record says why', async t => {
  for (const isDatabaseThere of [false, true]) {
    const disk = smallDisk(t, 8 * megabyte)
    if (disk === null) return
    const places = { deployments: join(disk, 'deployments'), tmp: join(disk, 'tmp') }
    const stage = isDatabaseThere ? await deployStage(t, join(disk, 'server')) : await deployStage(t, undefined, places)
    const project = await stage.addProject({
      deployPath: t.testdir({}),
      preDeployScript: 'yes the disk fills up, line by line'
    })
    const row = await stage.deploy(project, { 'a.txt': '1' })
    t.match(row, { status: 'failed', errorMessage: /^The pre-deploy script failed: no space left on device/ })
    t.strictSame(stage.row(row.id), row, `it is recorded${isDatabaseThere ? ', on the same disk' : ''}`)
    const lines = (await readFile(join(stage.home.deployments, `${row.id}.log`), 'utf8')).split('\n')
    t.equal(lines.pop(), '')
    t.ok(
      lines.every(line => /^\d{4}-[\d:.T-]+Z /.test(line)),
      'the log is whole lines'
    )
    await rm(join(stage.home.deployments, `${row.id}.log`))
    t.equal((await stage.deploy(project, { 'a.txt': '1' }, {})).status, 'failed')
  }
})

t.test('the disk of the target fills: the deployment fails, the target is as it was', async t => {
  const disk = smallDisk(t, megabyte)
  if (disk === null) return
  const stage = await deployStage(t)
  await writeFile(join(disk, 'a.txt'), 'old')
  const project = await stage.addProject({ deployPath: join(disk, 'site') })
  await stage.deploy(project, { 'a.txt': 'old' })
  const row = await stage.deploy(project, { 'a.txt': 'new', 'b.bin': 'b'.repeat(2 * megabyte) })
  t.match(row, { status: 'failed', errorMessage: /^Extracting the archive failed: .*no space/ })
  t.strictSame(await readdir(project.deployPath), ['a.txt'])
  t.equal(await readFile(join(project.deployPath, 'a.txt'), 'utf8'), 'old')
})

t.test('a disk without free inodes is named as that, with the path of the user', async t => {
  const disk = smallDisk(t, megabyte, 20)
  if (disk === null) return
  const stage = await deployStage(t)
  const target = join(disk, 'site')
  const project = await stage.addProject({ deployPath: target })
  await stage.deploy(project, { a: '1' })
  const files = Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`${at}`, 'x']))
  const { status, errorMessage } = await stage.deploy(project, files)
  t.equal(status, 'failed')
  t.match(
    errorMessage,
    `no inodes left on device in "${target}" (ENOSPC: no inodes left on device, open '${target}/.svc-`
  )
  for (let at = 0; ; at++) {
    try {
      writeFileSync(join(disk, `${at}`), '')
    } catch {
      break
    }
  }
  const next = await stage.deploy(project, { a: '2' })
  t.match(next.errorMessage, /no inodes left on device/)
  t.notMatch(next.errorMessage, '/proc/')
})

/** Fills the disk of a file to its end, without a turn of the event loop. */
function fill(path: string): void {
  try {
    for (;;) appendFileSync(path, Buffer.alloc(4096))
  } catch {
    // It is full.
  }
}

t.test('a disk that fills after the files are in place does not change the result of the deployment', async t => {
  const disk = smallDisk(t, 8 * megabyte)
  if (disk === null) return
  const stage = await deployStage(t, join(disk, 'server'))
  const filling = join(disk, 'filling')
  const project = await stage.addProject({
    deployPath: t.testdir({}),
    postDeployScript: `head -c 100M /dev/zero > '${filling}'; seq 1 5000; touch filled; while [ ! -e go ]; do sleep 0.02; done; touch ran`
  })
  const run = await stage.push(project, { 'a.txt': '1' })
  while (!existsSync(join(project.deployPath, 'filled'))) await turn()
  // The room that the redo log has reserved, down to what no record needs.
  for (const length of [64 * 1024, 4 * 1024, 64]) {
    await stage.store
      .write(tx => writeSetting(tx, 'ballast', 'b'.repeat(length)))
      .then(function more(): Promise<unknown> {
        return stage.store.write(tx => writeSetting(tx, 'ballast', 'b'.repeat(length))).then(more)
      })
      .catch(() => {})
  }
  await writeFile(join(project.deployPath, 'go'), '')
  // What svc noted before the script goes after it, and makes room for a block.
  const marks = join(stage.home.deployments, `${run.deployId}.marks`)
  while (existsSync(marks)) await turn()
  fill(filling)
  const row = await run.finished
  t.match(row, { status: 'success', fileCount: 1 })
  t.strictSame(
    (await readdir(project.deployPath)).sort(),
    ['a.txt', 'filled', 'go', 'ran'],
    'the script went on to its end'
  )
  t.equal(stage.deployer.current(stage.row(row.id)).status, 'success')
  t.type(stage.deployer.unrecorded(row.id), 'string')

  await rm(filling)
  await stage.change(project, { postDeployScript: '' })
  const next = await stage.deploy(project, { 'a.txt': '2' })
  t.match(
    [stage.row(row.id), next],
    [
      { status: 'success', placed: 1 },
      { status: 'success', placed: 2 }
    ]
  )
  t.match(
    await stage.output(row.id),
    /→ missing here: \d+ lines .*, because it could not be written \(ENOSPC.*\n→ post-deploy script ended with exit code 0.*\n.*\n✓ success/
  )
})
