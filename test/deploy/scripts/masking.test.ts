import t from 'tap'
import { createLineSplitter } from '../../../lib/base/text.js'
import { createMasker, type MaskedLines } from '../../../lib/deploy/scripts/masking.js'
import { createRandom } from '../../support/random.js'
import { until } from '../../support/until.js'

function masked(secrets: string[], lines: string[]): string[] {
  const out: string[] = []
  const stream = createMasker(secrets).lines(line => void out.push(line))
  for (const line of lines) stream.push(line)
  stream.end()
  return out
}

t.test('masks secrets of one line, of several lines, and across lines', async t => {
  const pem = '-----BEGIN KEY-----\nMIIEabcdefgh\r\nijklmnopqrst\nx\n-----END KEY-----\n'
  const cases: Array<[what: string, secrets: string[], lines: string[], expected: string[]]> = [
    ['nothing', ['hunter22'], ['a', '', 'hunter2'], ['a', '', 'hunter2']],
    ['a whole line', ['hunter22'], ['hunter22'], ['***']],
    ['within a line, twice', ['hunter22'], ['a hunter22 b=hunter22;'], ['a *** b=***;']],
    ['two that touch', ['hunter22'], ['hunter22hunter22'], ['******']],
    ['two that overlap', ['abcabc'], ['xabcabcabcy'], ['x***y']],
    ['one within another', ['abcdefgh', 'cdef'], ['abcdefgh cdef'], ['*** ***']],
    ['one that begins like itself', ['aaab'], ['aaaaab'], ['aa***']],
    ['over two lines', ['abcdefgh'], ['1 abcd', 'efgh 2'], ['1 ***', '*** 2']],
    ['over three lines', ['abcdefgh'], ['abc', 'de', 'fgh'], ['***', '***', '***']],
    ['not over an empty line', ['abcdefgh'], ['abcd', '', 'efgh'], ['abcd', '', 'efgh']],
    ['held back, and then not one', ['abcdefgh'], ['abcd', 'x'], ['abcd', 'x']],
    ['held back to the end', ['abcdefgh'], ['x abcd'], ['x abcd']],
    [
      'line by line',
      [pem],
      ['-----BEGIN KEY-----', 'MIIEabcdefgh', 'ijklmnopqrst', 'x', '-----END KEY-----'],
      ['***', '***', '***', 'x', '***']
    ],
    ['line ends of Windows are not part of it', [pem], ['key: MIIEabcdefgh.'], ['key: ***.']],
    ['blanks around it', ['  hunter22 \n'], ['[hunter22]'], ['[***]']],
    ['other alphabets', ['пароль', '秘密的钥匙'], ['это пароль 秘密的钥匙!'], ['это *** ***!']],
    ['special characters of patterns', ['a.*b$'], ['axxb a.*b$'], ['axxb ***']]
  ]
  for (const [what, secrets, lines, expected] of cases) t.strictSame(masked(secrets, lines), expected, what)
  t.equal(createMasker(['hunter22']).text('it says hunter22, hunter'), 'it says ***, hunter')
  t.equal(createMasker([]).text('as it is'), 'as it is')
})

t.test('reveals no secret in an output cut at every byte and folded at every width', async t => {
  const secrets = ['s3cret-value-ü', 'line one of it\nline two of it', 'ab12ab12ab13']
  const plain = `start s3cret-value-ü end\nx line one of it\nline two of it y\nab12ab12ab12ab13!\n`
  const expected = ['start *** end', 'x ***', '*** y', 'ab12***!']
  const bytes = Buffer.from(plain)
  for (let cut = 0; cut <= bytes.length; cut++) {
    const out: string[] = []
    const stream = createMasker(secrets).lines(line => void out.push(line))
    const splitter = createLineSplitter(line => void stream.push(line))
    splitter.push(bytes.subarray(0, cut))
    splitter.push(bytes.subarray(cut))
    splitter.end()
    stream.end()
    t.strictSame(out, expected, `cut after ${cut} bytes`)
  }
  for (let width = 1; width <= 40; width++) {
    const secret = 'abcdefghijklmnopqrstuvwxyz0123456789'
    const folded = `see ${secret} there`.match(new RegExp(`.{1,${width}}`, 'g')) as string[]
    const text = masked([secret], folded).join('\n')
    t.notMatch(text, /[a-df-gi-qu-z0-9]/, `folded at ${width}: ${text}`)
    t.equal(masked([secret], folded).length, folded.length, 'no line is lost')
  }
})

/** A second implementation of the specification: finds all secrets in the text without its line breaks. */
function expectedOf(secrets: string[], lines: string[]): string[] {
  const whole = lines.join('')
  const covered = new Uint8Array(whole.length)
  for (const secret of secrets) {
    for (let at = whole.indexOf(secret); at !== -1; at = whole.indexOf(secret, at + 1))
      covered.fill(1, at, at + secret.length)
  }
  let from = 0
  return lines.map(line => {
    const text = [...line].map((letter, index) => (covered[from + index] === 1 ? '*' : letter)).join('')
    from += line.length
    return text
  })
}

t.test('agrees with a search of the whole text for random texts and secrets', async t => {
  const random = createRandom(7)
  for (let round = 0; round < 2000; round++) {
    const word = (length: number): string => Array.from({ length }, () => random.oneOf(['a', 'b'])).join('')
    const secrets = [word(4), word(5), word(9)]
    const lines = Array.from({ length: 6 }, (_, index) => word(1 + ((round * 7 + index * 3) % 11)))
    const stars = (text: string): string => text.replace(/\*+/g, '*')
    t.strictSame(masked(secrets, lines).map(stars), expectedOf(secrets, lines).map(stars)) ||
      t.bailout(JSON.stringify({ secrets, lines }))
  }
})

t.test('holds lines back only if they may begin a secret, and only for a moment', async t => {
  const out: string[] = []
  const stream: MaskedLines = createMasker(['abcdefgh']).lines(line => void out.push(line))
  for (const line of ['one', 'two', 'x abcd']) stream.push(line)
  t.strictSame(out, ['one', 'two'])
  await until(() => out.length === 3)
  t.equal(out[2], 'x abcd', 'no other line arrived')
  stream.push('efgh')
  t.equal(out[3], '***', 'the rest is still masked')
  stream.end()
})

t.test('returns the promise of the consumer', async t => {
  const wait = Promise.resolve()
  const stream = createMasker(['abcdefgh']).lines(() => wait)
  t.equal(stream.push('x'), wait)
  t.equal(stream.push('abcd'), undefined)
  t.equal(stream.end(), wait)
})
