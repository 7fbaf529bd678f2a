import { mkdirSync, readFileSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { systemClock } from '../../lib/base/clock.js'
import { takeSnapshot } from '../../lib/backup/snapshot.js'
import { openStore } from '../../lib/store/durable-store.js'
import { insertDeployment } from '../../lib/store/tables/deployments.js'
import { insertProject } from '../../lib/store/tables/projects.js'
import { aDeployment, aProject } from '../store/stage.js'

const hour = 3_600_000

async function stageOf(t: Test) {
  const directory = t.testdir({ deployments: {}, tmp: {}, 'config.json': '{}\n', 'serve.log': 'started\n' })
  const home = { directory, deployments: join(directory, 'deployments'), tmp: join(directory, 'tmp') }
  const store = await openStore({ directory })
  t.teardown(() => store.close())
  await store.write(tx => insertProject(tx, aProject()))
  return {
    home,
    record: (id: string, status: 'running' | 'success', hasArtifact = true) =>
      store.write(tx => insertDeployment(tx, aDeployment({ id, status, hasArtifact }))),
    /** Returns the path of a file of deployments/ that was last written the given time ago. */
    put(name: string, text: string, agoMs = hour) {
      const path = join(home.deployments, name)
      writeFileSync(path, text)
      const at = (Date.now() - agoMs) / 1000
      utimesSync(path, at, at)
    },
    take: () => takeSnapshot({ store, home, clock: systemClock, ids: { token: () => 'scratch' } })
  }
}

t.test('includes before-images, also of a deployment whose archive was removed', async t => {
  const { record, put, take } = await stageOf(t)
  await record('dep_kept', 'success')
  await record('dep_pruned', 'success', false)
  for (const id of ['dep_kept', 'dep_pruned']) put(`${id}.before.zip`, 'before')
  const { files, discard } = await take()
  const names = files.map(({ path }) => path).filter(path => path.startsWith('deployments/'))
  t.strictSame(names.sort(), ['deployments/dep_kept.before.zip', 'deployments/dep_pruned.before.zip'])
  await discard()
})

t.test('includes the files that the records name, at the size they had', async t => {
  const { home, record, put, take } = await stageOf(t)
  await record('dep_over', 'success')
  await record('dep_on', 'running')
  for (const id of ['dep_over', 'dep_on']) {
    put(`${id}.zip`, 'archive')
    put(`${id}.log`, 'one\n')
  }
  put('dep_over.manifest', '{}\n')
  put('dep_on.undo', 'a journal')
  put('dep_on.manifest.tmp', 'half')
  put('dep_lost.zip', 'without a record, and old')
  put('dep_new.zip', 'its record is about to be written', 0)
  mkdirSync(join(home.deployments, 'dep_directory.zip'))

  const snapshot = await take()
  writeFileSync(join(home.deployments, 'dep_on.log'), 'two\n', { flag: 'a' })
  const found = snapshot.files.filter(({ path }) => path.startsWith('deployments/'))
  t.strictSame(
    found.map(({ path, bytes, isGrowing }) => [path.slice('deployments/'.length), bytes, isGrowing]),
    [
      ['dep_lost.zip', 25, false],
      ['dep_on.log', 4, true],
      ['dep_on.zip', 7, false],
      ['dep_over.log', 4, true],
      ['dep_over.manifest', 3, false],
      ['dep_over.zip', 7, false]
    ]
  )
  t.strictSame(
    snapshot.files.filter(file => !found.includes(file)).map(({ path, isGrowing }) => [path, isGrowing]),
    [
      ['svc.db', false],
      ['config.json', false],
      ['serve.log', true]
    ]
  )
  t.equal(
    snapshot.files.find(({ path }) => path === 'svc.db')?.bytes,
    readFileSync(join(home.tmp, 'scratch.backup/svc.db')).length
  )
  await snapshot.discard()
  t.strictSame(readdirSync(home.tmp), [])
})

t.test('reads an archive that retention removes during the backup', async t => {
  const { home, record, put, take } = await stageOf(t)
  await record('dep_over', 'success')
  put('dep_over.zip', 'archive')
  const snapshot = await take()
  rmSync(join(home.deployments, 'dep_over.zip'))
  const archive = snapshot.files.find(({ path }) => path === 'deployments/dep_over.zip')
  t.equal(readFileSync(archive?.source as string, 'utf8'), 'archive')
  await snapshot.discard()
})

t.test('leaves nothing in tmp if a snapshot fails', async t => {
  const { home, take } = await stageOf(t)
  mkdirSync(join(home.tmp, 'scratch.backup/svc.db'), { recursive: true })
  await t.rejects(take(), { code: 'EEXIST' }, 'the image cannot be written')
  t.strictSame(readdirSync(home.tmp), [])
})
