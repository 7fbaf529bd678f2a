import t from 'tap'
import {
  isEmpty,
  ordered,
  selectedLines,
  selectedText,
  wholeRange,
  wordAround
} from '../../../../www/elements/logs/log-selection.js'
import { stripAnsi } from '../../../../www/elements/logs/log-format.js'
import { createOutput } from '../../../support/growing-text.js'

function outputOf(...texts: string[]) {
  const output = createOutput()
  for (const text of texts) output.append({ at: '', text })
  return output
}

const output = outputOf('first line', '\x1b[31msecond\x1b[0m line', 'third line')
const range = (a: [number, number], b: [number, number]) => ({
  anchor: { line: a[0], column: a[1] },
  focus: { line: b[0], column: b[1] }
})

t.test('returns the selected text for both directions', async t => {
  for (const [from, to, expected] of [
    [[0, 6], [0, 10], 'line'],
    [[0, 6], [1, 6], 'line\nsecond'],
    [[2, 5], [0, 6], 'line\nsecond line\nthird'],
    [[1, 3], [1, 3], '']
  ] as Array<[[number, number], [number, number], string]>) {
    t.equal(selectedText(output, range(from, to), stripAnsi), expected)
  }
  t.ok(isEmpty(range([1, 3], [1, 3])))
  t.same(ordered(range([2, 0], [1, 5])).from, { line: 1, column: 5 })
})

t.test('returns the touched lines with their colours', async t => {
  t.equal(selectedLines(output, range([1, 3], [2, 1])), '\x1b[31msecond\x1b[0m line\nthird line\n')
})

t.test('selects all loaded lines without notes', async t => {
  const whole = wholeRange(output, stripAnsi)
  t.same(whole, range([0, 0], [2, 10]))
  t.equal(wholeRange(outputOf(), stripAnsi), null)
  const noted = Object.assign(outputOf('a', 'note', 'b'), {})
  ;(noted.lines as Array<{ at: string; text: string; isNote?: boolean }>)[1] = { at: '', text: 'note', isNote: true }
  t.equal(selectedText(noted, range([0, 0], [2, 1]), stripAnsi), 'a\nb')
  t.equal(selectedLines(noted, range([0, 0], [2, 1])), 'a\nb\n')
})

t.test('omits lines that were dropped meanwhile', async t => {
  const long = createOutput({ maxLines: 10 })
  for (let index = 0; index < 15; index++) long.append({ at: '', text: `${index}` })
  const first = long.firstNumber
  t.ok(first > 0)
  t.equal(selectedText(long, range([0, 0], [first, 9]), stripAnsi), String(first))
})

t.test('finds a word, a run of blanks, or a run of other characters', async t => {
  const text = 'foo_1 == "naïve"'
  for (const [column, expected] of [
    [1, 'foo_1'],
    [5, ' '],
    [6, '=='],
    [11, 'naïve'],
    [16, '"'],
    [99, '"']
  ] as const) {
    const { from, to } = wordAround(text, column)
    t.equal(text.slice(from, to), expected, String(column))
  }
  t.same(wordAround('', 0), { from: 0, to: 0 })
})
