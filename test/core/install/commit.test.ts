import t from 'tap'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, readdirSync, renameSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { disk as realDisk, type Disk } from '../../../lib/core/install/disk.js'
import { extractionStage, refusalOf } from '../../support/extraction.js'
import { makeZip } from '../../support/make-zip.js'
import { snapshot } from '../../support/tree.js'

/**
 * A disk that runs a callback, which changes the target, just before the n-th write to the undo journal. The second
 * write records that staging was created, the third contains the list.
 */
function meddling(meddle: () => void, n = 3): Disk {
  let opened = 0
  return {
    ...realDisk,
    openSync: ((path: string, ...rest: [string, number]) => {
      // It is created first, and then opened for each write.
      if (path.endsWith('.undo') && rest[0] !== 'wx' && ++opened === n) meddle()
      return realDisk.openSync(path, ...rest)
    }) as Disk['openSync']
  }
}

t.test('does not overwrite concurrent changes of the application, and puts the target back', async t => {
  const cases: Array<[what: string, meddle: (target: string) => void, code: string]> = [
    ['a file appeared', target => writeFileSync(join(target, 'new'), 'theirs'), 'target_changed'],
    ['a file vanished', target => unlinkSync(join(target, 'app/old')), 'target_changed'],
    [
      'a file became a directory',
      target => {
        unlinkSync(join(target, 'app/old'))
        mkdirSync(join(target, 'app/old/theirs'), { recursive: true })
      },
      'target_changed'
    ],
    [
      'a file that only gets a time was changed',
      target => writeFileSync(join(target, 'app/same'), 'theirs'),
      'target_changed'
    ],
    ['a file that only gets a time vanished', target => unlinkSync(join(target, 'app/same')), 'target_changed'],
    [
      'a directory became a link',
      target => {
        renameSync(join(target, 'app'), join(target, 'moved'))
        symlinkSync('../outside', join(target, 'app'))
      },
      'written_through_link'
    ]
  ]
  for (const [what, meddle, code] of cases) {
    const directory = t.testdir({
      outside: { old: 'outside' },
      target: { app: { old: 'old', same: 'deployed' }, first: 'first' }
    })
    const stage = extractionStage(directory)
    stage.put(makeZip(['app/old', 'app/same', 'first', 'new', 'fresh/x'].map(name => ({ name, data: 'deployed' }))))
    let expected: string[] = []
    const disk = meddling(() => {
      meddle(stage.target)
      expected = snapshot(stage.target).filter(line => !line.startsWith('.svc-staging'))
    })
    t.equal((await refusalOf(stage.run({ disk }))).code, code, what)
    t.strictSame(snapshot(stage.target), expected, what)
    t.equal(readFileSync(join(directory, 'outside/old'), 'utf8'), 'outside')
    t.strictSame(readdirSync(stage.deployments), [])
  }
})

t.test('renames files aside if hard links are not supported', async t => {
  const stage = extractionStage(t.testdir({ target: { a: 'old', b: 'old' } }))
  const linkSync = () => {
    throw Object.assign(new Error('EPERM: link'), { code: 'EPERM' })
  }
  stage.put(
    makeZip([
      { name: 'a', data: 'new' },
      { name: 'b', data: 'new' },
      { name: 'c', data: 'new' }
    ])
  )
  const before = snapshot(stage.target)
  let renames = 0
  const renameSync: Disk['renameSync'] = (from, to) => {
    if (String(to).endsWith('/b') && renames++ === 0) throw Object.assign(new Error('EIO'), { code: 'EIO' })
    realDisk.renameSync(from, to)
  }
  await t.rejects(stage.run({ disk: { ...realDisk, linkSync, renameSync } }), { code: 'EIO' })
  t.strictSame(snapshot(stage.target), before)
  await stage.run({ disk: { ...realDisk, linkSync } })
  t.strictSame(
    ['a', 'b', 'c'].map(name => readFileSync(join(stage.target, name), 'utf8')),
    ['new', 'new', 'new']
  )
})

t.test('does not read, or wait for, an entry that replaced a file before the comparison', async t => {
  const cases: Array<[what: string, plant: (place: string) => void]> = [
    ['a link to a secret', place => symlinkSync('../../outside/old', place)],
    ['a device', place => symlinkSync('/dev/zero', place)],
    ['a directory', place => mkdirSync(place)],
    ...(process.platform === 'win32'
      ? []
      : [['a pipe', place => void execFileSync('mkfifo', [place])] as (typeof cases)[number]])
  ]
  for (const [what, plant] of cases) {
    const directory = t.testdir({ outside: { old: 'deployed' }, target: { app: { old: 'old' } } })
    const stage = extractionStage(directory)
    stage.put(makeZip([{ name: 'app/old', data: 'deployed' }]))
    const place = join(stage.target, 'app/old')
    const disk = meddling(() => {
      unlinkSync(place)
      plant(place)
    }, 2)
    t.equal((await refusalOf(stage.run({ disk }))).code, 'target_changed', what)
    t.strictSame(readdirSync(stage.target), ['app'])
    t.strictSame(readdirSync(stage.deployments), [])
  }
})
