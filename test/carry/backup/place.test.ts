import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { commitRestore, findContents, finishRestore, makeAside, placesWithin } from '../../../lib/carry/backup/place.js'
import { snapshot } from '../../support/tree.js'

const old = ['config.json', 'deployments', 'svc.db']

/** A data directory with an old state, and a new state that was built. */
function furnish(t: Test) {
  const top = t.testdir({
    home: { 'config.json': 'old', 'svc.db': 'old', deployments: { 'a.zip': 'old' }, tmp: {}, 'svc.sock': '' }
  })
  const home = join(top, 'home')
  const building = join(home, '.restore-abc')
  const { data, aside } = placesWithin(building)
  mkdirSync(join(data, 'deployments'), { recursive: true })
  for (const name of ['config.json', 'svc.db', 'deployments/b.zip']) writeFileSync(join(data, name), 'new')
  const before = join(top, 'home.before')
  mkdirSync(before)
  symlinkSync(before, aside)
  return { home, building, before }
}

function isOld(home: string): boolean {
  return readFileSync(join(home, 'svc.db'), 'utf8') === 'old' && existsSync(join(home, 'deployments/a.zip'))
}

function isNew(home: string): boolean {
  const names = readdirSync(home).filter(name => name !== 'svc.sock' && name !== 'tmp')
  return (
    names.join() === old.join() &&
    snapshot(home)
      .filter(line => /^(config|svc\.db|deployments\/\w)/.test(line))
      .every(line => line.endsWith('new'))
  )
}

t.test('removes an interrupted restore before its commit and keeps the old files', async t => {
  const { home } = furnish(t)
  t.equal(await finishRestore(home), false)
  t.ok(isOld(home))
  t.notOk(readdirSync(home).some(name => name.startsWith('.restore')))
})

t.test('finishes a restore after its commit, wherever and however often it was interrupted', async t => {
  // The renames, one by one. The process may have ended after each of them.
  const steps = [
    (home: string, before: string) => renameSync(join(home, 'config.json'), join(before, 'config.json')),
    (home: string, before: string) => renameSync(join(home, 'deployments'), join(before, 'deployments')),
    (home: string, before: string) => renameSync(join(home, 'svc.db'), join(before, 'svc.db')),
    (home: string, before: string) => renameSync(join(home, 'tmp'), join(before, 'tmp')),
    (home: string) => renameSync(join(home, '.restored'), join(home, '.restore-arriving')),
    (home: string) => renameSync(join(home, '.restore-arriving/data/config.json'), join(home, 'config.json')),
    (home: string) => renameSync(join(home, '.restore-arriving/data/deployments'), join(home, 'deployments')),
    (home: string) => renameSync(join(home, '.restore-arriving/data/svc.db'), join(home, 'svc.db'))
  ]
  for (let done = 0; done <= steps.length; done++) {
    for (const hasDirectories of [false, true]) {
      const { home, building, before } = furnish(t)
      await commitRestore(home, building)
      for (const step of steps.slice(0, done)) step(home, before)
      // A start creates these directories before it takes ownership.
      if (hasDirectories) for (const name of ['deployments', 'tmp']) mkdirSync(join(home, name), { recursive: true })
      t.equal(await finishRestore(home), true, `after ${done} renames`)
      t.ok(isNew(home), 'only the new files are there')
      t.strictSame(
        readdirSync(before).filter(name => name !== 'tmp'),
        old,
        'the old files are aside'
      )
      t.ok(existsSync(join(home, 'svc.sock')), 'the lock is not touched')
      t.equal(await finishRestore(home), false, 'nothing is left to finish')
      t.ok(isNew(home))
    }
  }
})

t.test('ignores directories without a file, and locks', async t => {
  const home = t.testdir({
    'svc.sock': '',
    tmp: {},
    deployments: { empty: {} },
    '.restore-x': { a: '' },
    'before-restore-x': { a: '' }
  })
  t.strictSame(await findContents(home), [])
  writeFileSync(join(home, 'deployments/empty/a'), '')
  t.strictSame(await findContents(home), ['deployments'])
  t.strictSame(await findContents(join(home, 'missing')), [])
})

t.test('moves old files next to the data directory, or within it if that is not possible', async t => {
  const top = t.testdir({ home: { building: {} } })
  const home = join(top, 'home')
  const building = join(home, 'building')
  t.equal(await makeAside(home, building, 'now'), join(top, 'home.before-now'))
  t.equal(await makeAside(home, building, 'now'), join(home, 'before-restore-now'), 'the name is taken')
  t.strictSame(readdirSync(join(top, 'home.before-now')), [])
  t.strictSame(readdirSync(building), ['aside'], 'the link that names it')
})

t.test('removes the directory for old files before the commit, unless it contains something', async t => {
  const top = t.testdir({ home: { '.restore-abc': { data: {} } } })
  const home = join(top, 'home')
  for (const steps of ['all', 'none'] as const) {
    const building = join(home, '.restore-abc')
    mkdirSync(building, { recursive: true })
    const aside = await makeAside(home, building, steps)
    // The process may have ended while it checked whether a rename works.
    mkdirSync(join(aside, 'probe'))
    if (steps === 'none') writeFileSync(join(aside, 'svc.db'), 'old')
    t.equal(await finishRestore(home), false)
    t.equal(existsSync(aside), steps === 'none')
  }
})
