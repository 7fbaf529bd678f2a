import t from 'tap'
import type { Provenance } from '../../lib/model/provenance.js'
import { bytesOf, chatLines, clip, jsonBytesOf } from '../../lib/notify/chat-text.js'
import { notificationOf } from '../../lib/notify/events.js'
import { occasion } from '../support/occasion.js'

t.test('cuts a text at a whole character and never within an escape', async t => {
  const escape = (character: string): string => (character === '&' ? '&amp;' : character)
  const cases: Array<[text: string, clipping: Parameters<typeof clip>[1], expected: string]> = [
    ['abc', { max: 3 }, 'abc'],
    ['abcd', { max: 3 }, 'ab…'],
    ['a&&', { max: 11, escape }, 'a&amp;&amp;'],
    ['a&&b', { max: 11, escape }, 'a&amp;…'],
    ['😀😀', { max: 8, measure: bytesOf }, '😀😀'],
    ['😀😀', { max: 7, measure: bytesOf }, '😀…'],
    ['"""', { max: 6, measure: jsonBytesOf }, '"""'],
    ['""""', { max: 6, measure: jsonBytesOf }, '"…'],
    ['', { max: 1 }, '']
  ]
  for (const [text, clipping, expected] of cases) t.equal(clip(text, clipping), expected, text)
})

const nothing: Provenance = {
  source: 'cli',
  commit: null,
  branch: null,
  tag: null,
  author: null,
  subject: null,
  dirty: null,
  repository: null,
  ci: null,
  by: null
}
const commit = '0123456789abcdef0123456789abcdef01234567'
const lines: Array<[what: Partial<Provenance>, expected: string | undefined]> = [
  [{}, undefined],
  [{ commit }, '0123456'],
  [{ commit, branch: 'main' }, '0123456 on main'],
  [{ commit, branch: 'main', tag: 'v2' }, '0123456 on v2'],
  [{ branch: 'main' }, 'main'],
  [{ author: 'Ada' }, undefined],
  [{ commit, branch: 'main', author: 'Ada' }, '0123456 on main, by Ada']
]

t.test('formats the commit as a line', async t => {
  for (const [what, expected] of lines) {
    const notification = notificationOf(occasion({ deployment: { provenance: { ...nothing, ...what } } }), 0, null)
    t.equal(chatLines(notification).find(([name]) => name === 'Commit')?.[1], expected)
  }
})
