import { closeSync, openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { compilePattern, type PatternQuery } from '../../../../lib/operate/logs/search/pattern.js'
import { createScanner } from '../../../../lib/operate/logs/search/scan.js'
import { createBlockBuffer, BlockSearch, type FoundHit } from '../../../../lib/operate/logs/search/search-block.js'
import { createRandom, type Random } from '../../../support/random.js'

/*
 * Random expressions over random lines, in blocks that are cut anywhere, compared with the simple way: each line by
 * itself. FIRST_SEED=… sets other seeds, SEEDS=… more of them.
 */
const firstSeed = Number(process.env['FIRST_SEED'] ?? 1)
const seeds = Number(process.env['SEEDS'] ?? 1500)

const pieces = [
  'a',
  'b',
  'ab',
  'k',
  'K',
  'error',
  'Error',
  ' ',
  '  ',
  '"',
  '.',
  '50',
  '501',
  '7',
  '\t',
  'é',
  'É',
  '失败',
  '败',
  'ſ',
  '\u212a',
  '\u00a0',
  '😀'
]
const atoms = [
  'a',
  'b',
  'ab',
  'k',
  'error',
  'E',
  ' ',
  '"',
  '\\.',
  '50',
  '.',
  '[ab]',
  '[^"]',
  '[^a ]',
  '[a-k]',
  '\\d',
  '\\D',
  '\\w',
  '\\W',
  '\\s',
  '\\S',
  '\\t',
  'é',
  '失败',
  '[失é]',
  '[^失]',
  '\\x61',
  '(a|b)',
  '(?:50|7)',
  '(ab)\\1',
  '(?=a)',
  '(?!b)',
  '(?<=a)',
  '(?<! )',
  '\\b',
  '\\B',
  '^',
  '$',
  '[]',
  '[^]',
  '(?:失|a)',
  '😀',
  '\\u0041'
]
const quantifiers = ['', '', '', '', '*', '+', '?', '*?', '+?', '{2}', '{0,2}', '{1,}']

function randomQuery(random: Random): PatternQuery {
  const ignoresCase = random.below(2) === 0
  if (random.below(3) === 0) {
    return {
      q: [random.oneOf(pieces), ...random.some(3, () => random.oneOf(pieces))].join(''),
      isRegex: false,
      ignoresCase
    }
  }
  const sequence = (): string =>
    [0, ...random.some(3, () => 0)]
      .map(() => {
        const atom = random.oneOf(atoms)
        const isQuantified = !/^(\\[bB]|\^|\$|\(\?<?[=!].*)$/.test(atom)
        return isQuantified ? atom + random.oneOf(quantifiers) : atom
      })
      .join('')
  const isChoice = random.below(5) === 0
  return { q: isChoice ? `${sequence()}|${sequence()}` : sequence(), isRegex: true, ignoresCase }
}

function isHit(line: string, { q, isRegex, ignoresCase }: PatternQuery): boolean {
  const isUnicode = isRegex && /\\[pPu]\{|[\ud800-\udbff]/.test(q)
  const source = isRegex ? q : q.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
  return new RegExp(source, `${ignoresCase ? 'i' : ''}${isUnicode ? 'u' : ''}`).test(line)
}

t.test('finds in blocks what each line gives by itself, with its position and the lines around it', async t => {
  const path = join(t.testdir({}), 'file')
  const buffer = createBlockBuffer()
  let hitCount = 0
  for (let seed = firstSeed; seed < firstSeed + seeds; seed++) {
    const random = createRandom(seed)
    const query = randomQuery(random)
    // Some files are pure ASCII, to test the code for those.
    const alphabet = random.below(2) === 0 ? pieces : pieces.filter(piece => /^[\0-\x7f]*$/.test(piece))
    const line = (): string => random.some(8, () => random.oneOf(alphabet)).join('')
    const lines = [line(), ...random.some(30, line)]
    const ends = random.oneOf(['\n', '\r\n'])
    const context = random.below(4)
    const all = Buffer.from(lines.join(ends) + (random.below(2) === 0 || lines.at(-1) === '' ? ends : ''))
    writeFileSync(path, all)
    const fd = openSync(path, 'r')
    try {
      const blocks = new BlockSearch({ fd, scanner: createScanner(compilePattern(query)), context, buffer })
      const hits: FoundHit[] = []
      for (let from = 0, to; from < all.length; from = to) {
        to = Math.min(all.length, from + 1 + random.below(random.oneOf([3, 20, 400])))
        blocks.search({ from, to, size: all.length }, hit => hits.push(hit) > 0)
      }
      let offset = 0
      const expected: FoundHit[] = []
      for (const [index, line] of lines.entries()) {
        const end = Math.min(all.length, offset + Buffer.byteLength(line + ends))
        if (end > offset && isHit(line, query)) {
          expected.push({
            offset,
            end,
            text: line,
            before: lines.slice(Math.max(0, index - context), index),
            after: lines.slice(index + 1, index + 1 + context)
          })
        }
        offset = end
      }
      hitCount += expected.length
      const [got, wanted] = [JSON.stringify(hits), JSON.stringify(expected)]
      if (got !== wanted) t.same(hits, expected, `seed ${seed}: ${JSON.stringify({ ...query, lines, ends })}`)
    } finally {
      closeSync(fd)
    }
  }
  t.ok(hitCount > seeds, `${hitCount} hits`)
})
