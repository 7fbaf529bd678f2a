import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { commitRestore, findContents, finishRestore, makeAside, placesWithin } from '../../lib/backup/place.js'
import { snapshot } from '../support/tree.js'

const old = ['config.json', 'deployments', 'svc.db']

/** A data directory with an old state, and a new one that was built. */
function furnish(t: Test) {
  const top = t.testdir({ home: { 'config.json': 'old', 'svc.db': 'old', deployments: { 'a.zip': 'old' }, tmp: {}, 'svc.sock': '' } })
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
  return names.join() === old.join() && snapshot(home).filter(line => /^(config|svc\.db|deployments\/\w)/.test(line)).every(line => line.endsWith('new'))
}

t.test('before its moment a restore that was cut short leaves the old, and goes', async t => {
  const { home } = furnish(t)
  t.equal(await finishRestore(home), false)
  t.ok(isOld(home))
  t.notOk(readdirSync(home).some(name => name.startsWith('.restore')))
})

t.test('after its moment it comes to its end, wherever it was cut short, and however often', async t => {
  // The renames, one by one; after each of them the process may have ended.
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
      // A start makes sure of these before it takes possession.
      if (hasDirectories) for (const name of ['deployments', 'tmp']) mkdirSync(join(home, name), { recursive: true })
      t.equal(await finishRestore(home), true, `after ${done} renames`)
      t.ok(isNew(home), 'the new is there, and nothing else')
      t.strictSame(readdirSync(before).filter(name => name !== 'tmp'), old, 'the old is aside')
      t.ok(existsSync(join(home, 'svc.sock')), 'the lock is not touched')
      t.equal(await finishRestore(home), false, 'it is over')
      t.ok(isNew(home))
    }
  }
})

t.test('what a data directory holds: directories without a file, and locks, are nothing', async t => {
  const home = t.testdir({ 'svc.sock': '', tmp: {}, deployments: { empty: {} }, '.restore-x': { a: '' }, 'before-restore-x': { a: '' } })
  t.strictSame(await findContents(home), [])
  writeFileSync(join(home, 'deployments/empty/a'), '')
  t.strictSame(await findContents(home), ['deployments'])
  t.strictSame(await findContents(join(home, 'missing')), [])
})

t.test('what is there goes beside the data directory, or within it where it cannot', async t => {
  const top = t.testdir({ home: { building: {} } })
  const home = join(top, 'home')
  const building = join(home, 'building')
  t.equal(await makeAside(home, building, 'now'), join(top, 'home.before-now'))
  t.equal(await makeAside(home, building, 'now'), join(home, 'before-restore-now'), 'the name is taken')
  t.strictSame(readdirSync(join(top, 'home.before-now')), [])
  t.strictSame(readdirSync(building), ['aside'], 'the link that names it')
})

t.test('before its moment it takes the directory for the old with it, unless something is in that', async t => {
  const top = t.testdir({ home: { '.restore-abc': { data: {} } } })
  const home = join(top, 'home')
  for (const steps of ['all', 'none'] as const) {
    const building = join(home, '.restore-abc')
    mkdirSync(building, { recursive: true })
    const aside = await makeAside(home, building, steps)
    // The process may have ended while it tried whether a rename leads there.
    mkdirSync(join(aside, 'probe'))
    if (steps === 'none') writeFileSync(join(aside, 'svc.db'), 'old')
    t.equal(await finishRestore(home), false)
    t.equal(existsSync(aside), steps === 'none')
  }
})
