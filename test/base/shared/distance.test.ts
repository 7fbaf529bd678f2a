import t from 'tap'
import { distanceWords } from '../../../lib/base/shared/distance.js'

const at = (since: string, releases: number | null, isSame = false) => ({
  release: { since },
  distance: { isSame, releases }
})
const first = at('2026-11-20T10:00:00.000Z', null)

t.test('the distance of two releases', async t => {
  t.equal(distanceWords({ release: null, distance: null }, first), null, 'nothing in place')
  t.equal(distanceWords({ ...first, distance: null }, first), null, 'the first itself')
  t.equal(distanceWords(first, { release: null, distance: null }), null, 'nothing to compare with')
  t.match(distanceWords(at('x', 0, true), first), { isSame: true, words: 'same files as {env}' })
  t.match(distanceWords(at('x', 1), first), { isSame: false, words: '1 release behind {env}', count: 1 })
  t.match(distanceWords(at('x', -3), first), { words: '{count} releases ahead of {env}', count: 3 })
  const older = { words: 'other files than {env}, {time} older', count: null, apartMs: 60_000 }
  t.match(distanceWords(at('2026-11-20T09:59:00.000Z', null), first), older, 'a release that it never had')
})
