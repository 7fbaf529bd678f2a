import t from 'tap'
import { compilePattern } from '../../../lib/logs/search/pattern.js'
import { createScanner } from '../../../lib/logs/search/scan.js'
import { visibleScanner } from '../../../lib/logs/search/visible.js'

const red = '\x1b[31m'
const off = '\x1b[0m'

interface Case {
  text: string
  q: string
  isRegex?: boolean
  /** The lines that are found. */
  lines: string[]
  /** The text of the file from the match on. */
  from?: string[]
}

const cases: Case[] = [
  { text: 'plain error\n', q: 'error', lines: ['plain error'], from: ['error'] },
  { text: `${red}err${off}or two\n`, q: 'error', lines: [`${red}err${off}or two`], from: [`err${off}or two`] },
  { text: `${red}info${off}: user\n`, q: '^info: user$', isRegex: true, lines: [`${red}info${off}: user`] },
  { text: `one${off}\n${red}two\n`, q: 'two', lines: [`${red}two`], from: ['two'] },
  { text: `one${off}\n${red}two${off}\nthree\n`, q: 'three', lines: ['three'], from: ['three'] },
  { text: `${red}one${off}\n`, q: '31m', lines: [] },
  { text: `${red}ä€${off}ü\n`, q: '€ü', lines: [`${red}ä€${off}ü`] },
  {
    text: `\x1b]8;;http://x/\x1b\\link\x1b]8;;\x07 text\n`,
    q: 'link text',
    lines: [`\x1b]8;;http://x/\x1b\\link\x1b]8;;\x07 text`]
  },
  { text: `cut \x1b[3\nnext\n`, q: 'next', lines: ['next'] },
  { text: `title \x1b]0;never ends\nnext line\n`, q: 'line', lines: ['next line'], from: ['line'] },
  { text: `${red}${off}${red}x${off}${off}`, q: '^x$', isRegex: true, lines: [`${red}${off}${red}x${off}${off}`] },
  { text: '\x1bé one\n', q: 'one', lines: ['\x1bé one'] },
  { text: `${red}\n${off}\n`, q: '^$', isRegex: true, lines: [red, off] }
]

for (const { text, q, isRegex = false, lines, from } of cases) {
  t.test(`"${q}" in ${JSON.stringify(text)}`, async t => {
    const bytes = Buffer.from(text)
    const scanner = visibleScanner(createScanner(compilePattern({ q, isRegex, ignoresCase: false })))
    const found: Array<[line: string, from: string]> = []
    scanner.scan(bytes, (start, end, at) => {
      found.push([bytes.toString('utf8', start, end), bytes.toString('utf8', at, end)])
      return true
    })
    t.same(
      found.map(([line]) => line),
      lines
    )
    if (from !== undefined)
      t.same(
        found.map(([, rest]) => rest),
        from
      )
  })
}

t.test('finds in a coloured log what it finds in the same log without colours', async t => {
  let seed = 5
  const random = (below: number): number => (seed = (seed * 48271) % 2147483647) % below
  const words = ['info', 'error', ' ', ': ', 'user', '\n', 'ü']
  for (let round = 0; round < 50; round++) {
    const pieces = Array.from({ length: 200 }, () => words[random(words.length)] as string)
    const coloured = pieces.map(word => `${random(3) === 0 ? `\x1b[${random(99)}m` : ''}${word}`).join('')
    const numbersOf = (text: string, isVisible: boolean): number[] => {
      const bytes = Buffer.from(text)
      const plain = createScanner(compilePattern({ q: 'error(: )?user$', isRegex: true, ignoresCase: false }))
      const numbers: number[] = []
      ;(isVisible ? visibleScanner(plain) : plain).scan(bytes, start => {
        numbers.push(bytes.toString('latin1', 0, start).split('\n').length)
        return true
      })
      return numbers
    }
    t.same(numbersOf(coloured, true), numbersOf(pieces.join(''), false))
  }
})
