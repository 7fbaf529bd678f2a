import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { isInside } from '../../../lib/base/files.js'
import { realPlace } from '../../../lib/core/install/guard.js'
import { createTargetPlaces } from '../../../lib/core/install/overlap.js'
import { createRandom } from '../../support/random.js'

const targets = (...paths: string[]) => paths.map(deployPath => ({ deployPath }))
/** Waits until the ctime of a changed directory is trusted. */
const settled = () => sleep(2100)

function aDirectory(t: Test): string {
  const top = realpathSync(mkdtempSync(join(tmpdir(), 'svc-overlap-')))
  t.teardown(() => rmSync(top, { recursive: true, force: true }))
  return top
}

const cases: Array<[one: string, other: string, overlaps: boolean]> = [
  ['/srv/a', '/srv/a', true],
  ['/srv/a', '/srv/a/b/c', true],
  ['/srv/a/b/c', '/srv/a', true],
  ['/srv/a', '/srv/a-b', false],
  ['/srv/a', '/srv/a.b', false],
  ['/srv/a', '/srv/b', false],
  ['/srv/a', '/srv/A', false]
]

for (const [one, other, overlaps] of cases) {
  t.test(`${one} and ${other} ${overlaps ? 'overlap' : 'do not'}`, async t => {
    const among = createTargetPlaces().among(targets(one, '/srv/elsewhere'))
    t.equal(among.overlapping(other)?.deployPath, overlaps ? one : undefined)
    t.equal(
      among.overlapping(other, () => false),
      undefined,
      'none for which the filter is true'
    )
  })
}

t.test('finds targets that were added later', async t => {
  const among = createTargetPlaces().among(targets('/srv/b', '/srv/d'))
  t.equal(among.overlapping('/srv/c/x'), undefined)
  for (const deployPath of ['/srv/c', '/srv/a', '/srv/e']) among.add({ deployPath })
  t.equal(among.overlapping('/srv/c/x')?.deployPath, '/srv/c')
  t.equal(among.overlapping('/srv')?.deployPath, '/srv/a')
})

/** The result is the same as with realpath of each path. */
function overlapsByRealPath(one: string, other: string): boolean {
  const places = (path: string): string[] => {
    try {
      return [path, realPlace(path)]
    } catch {
      return [path]
    }
  }
  return places(one).some(place => places(other).some(also => isInside(place, also) || isInside(also, place)))
}

t.test('finds what realpath finds, for any tree and after any change', async t => {
  const top = aDirectory(t)
  const random = createRandom(3)
  const names = ['a', 'b', 'c']
  const aPath = (): string => join(top, ...Array.from({ length: 1 + random.below(3) }, () => random.oneOf(names)))
  const places = createTargetPlaces()
  const attempt = (work: () => void): void => {
    try {
      work()
    } catch {
      // The operation is not possible in this place.
    }
  }
  const changes = [
    () => mkdirSync(aPath(), { recursive: true }),
    () => symlinkSync(random.oneOf(['a', '../b', './c', 'none', aPath()]), aPath()),
    () => unlinkSync(aPath()),
    () => renameSync(aPath(), aPath()),
    () => writeFileSync(aPath(), ''),
    () => rmSync(aPath(), { recursive: true })
  ]
  let overlaps = 0
  for (let step = 0; step < 400; step++) {
    for (const change of random.some(4, () => random.oneOf(changes))) attempt(change)
    // Sometimes long enough for names to be remembered.
    if (step % 150 === 149) await settled()
    const others = targets(...random.some(4, aPath))
    const own = aPath()
    const expected = others.some(({ deployPath }) => overlapsByRealPath(own, deployPath))
    const found = places.among(others).overlapping(own) !== undefined
    if (found !== expected)
      t.fail(`step ${step}: ${own} among ${others.map(({ deployPath }) => deployPath).join(', ')}: ${found}`)
    if (found) overlaps++
  }
  t.ok(overlaps > 50, `${overlaps} overlaps`)
})

t.test('follows at once a name that was remembered as no link and becomes one', async t => {
  const top = aDirectory(t)
  for (const name of ['sites', 'real', 'real/x']) mkdirSync(join(top, name))
  mkdirSync(join(top, 'sites/a'))
  await settled()
  const places = createTargetPlaces()
  const others = targets(join(top, 'sites/a'), join(top, 'sites/b'))
  const find = () => places.among(others).overlapping(join(top, 'real/x'))
  t.equal(find(), undefined)
  t.equal(find(), undefined)

  renameSync(join(top, 'sites/a'), join(top, 'sites/gone'))
  symlinkSync('../real/x', join(top, 'sites/a'))
  // Times that can be set prove nothing.
  utimesSync(join(top, 'sites'), 1, 1)
  t.equal(find(), others[0])

  unlinkSync(join(top, 'sites/a'))
  t.equal(find(), undefined)
  renameSync(join(top, 'sites'), join(top, 'sites-before'))
  symlinkSync('real', join(top, 'sites'))
  t.equal(places.among(others).overlapping(join(top, 'real/b')), others[1], 'a directory above becomes a link')
})

t.test(
  'treats a directory without search permission like realpath',
  { skip: process.getuid?.() === 0 && 'root may look into all' },
  async t => {
    const top = aDirectory(t)
    mkdirSync(join(top, 'closed'))
    chmodSync(join(top, 'closed'), 0)
    t.teardown(() => chmodSync(join(top, 'closed'), 0o700))
    const others = targets(join(top, 'closed/a'))
    t.equal(createTargetPlaces().among(others).overlapping(join(top, 'closed/a/b')), others[0])
    t.equal(createTargetPlaces().among(others).overlapping(join(top, 'closed/b')), undefined)
  }
)
