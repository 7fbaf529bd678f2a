import t from 'tap'
import { createSortedNames } from '../../lib/archive/sorted-names.js'
import { checkNames, type NamedEntry } from '../../lib/archive/names.js'
import { Refusal } from '../../lib/base/refusal.js'
import { compareTreePaths } from '../../lib/shared/tree-text.js'

function codeOf(check: () => void): string | null {
  try {
    check()
    return null
  } catch (error) {
    if (error instanceof Refusal) return error.code
    throw error
  }
}

function checkSorted(entries: NamedEntry[]): void {
  const names = createSortedNames()
  for (const entry of entries) {
    const above = names.add(entry)
    if (above !== null) throw above.refusal
  }
  names.end()
}

const folds = () => ({ letterCase: false, normalForm: false })

t.test('sorted names are judged like all names together', t => {
  let seed = 7
  const random = (below: number): number => (seed = (seed * 48_271) % 0x7fffffff) % below
  let refused = 0
  for (let round = 0; round < 2000; round++) {
    const paths = new Set<string>()
    for (let at = 0; at < 4; at++) {
      paths.add(Array.from({ length: 1 + random(3) }, () => ['a', 'a-', 'a.b', 'é', 'b'][random(5)]).join('/'))
    }
    const entries = [...paths]
      .sort(compareTreePaths)
      .map(path => ({ path, kind: random(2) === 0 ? ('file' as const) : ('symlink' as const) }))
    const codes = [codeOf(() => checkSorted(entries)), codeOf(() => checkNames(entries, { windows: false, folds }))]
    // An archive with several such pairs may name another one.
    t.equal(codes[0] === null, codes[1] === null, JSON.stringify(entries))
    if (codes[0] !== null) refused++
  }
  t.ok(refused > 100 && refused < 1900)
  t.end()
})

t.test('a name that needs too many directories is refused', t => {
  const entries = Array.from({ length: 30 }, (_, at) => ({
    path: `${at + 10}/${'x/'.repeat(700)}f`,
    kind: 'file' as const
  }))
  t.equal(
    codeOf(() => checkSorted(entries)),
    'too_many_directories'
  )
  t.equal(
    codeOf(() => checkNames(entries, { windows: false, folds })),
    'too_many_directories'
  )
  t.equal(
    codeOf(() => checkSorted(entries.slice(0, 5))),
    null
  )
  t.end()
})
