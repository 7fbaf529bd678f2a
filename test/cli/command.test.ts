import t from 'tap'
import { Refusal } from '../../lib/base/errors.js'
import {
  defineCommand,
  exitCodes,
  type OperandTable,
  type OptionRow,
  type OptionTable,
  parseArgs,
  wordsOf
} from '../../lib/cli/command.js'
import { shownFlag } from '../../lib/cli/command.js'

t.test('a command has the name of its row, and exit codes follow the shell', async t => {
  const row = { operands: {}, options: {}, examples: [['x', 'do x']], run: async () => 0 } as const
  t.strictSame(defineCommand(row), row)
  const { operands: _, options: __, ...plain } = row
  t.strictSame(defineCommand(plain), row, 'without tables they are empty')
  t.strictSame(exitCodes, { success: 0, failed: 1, usage: 2, interrupted: 130 })
})

t.test('the help shows a switch that is on by default with --no-', async t => {
  const cases: Array<[row: OptionRow, expected: string]> = [
    [{ type: 'switch', help: '' }, '--wait'],
    [{ type: 'switch', default: false, help: '' }, '--wait'],
    [{ type: 'switch', default: true, help: '' }, '--no-wait'],
    [{ type: 'text', default: 'yes', help: '' }, '--wait']
  ]
  for (const [row, expected] of cases) t.equal(shownFlag('wait', row), expected)
})

const options: OptionTable = {
  follow: { type: 'switch', alias: 'f', help: 'follow' },
  timestamps: { type: 'switch', alias: 't', help: 'times' },
  builtin: { type: 'switch', default: true, help: 'no built-in rules' },
  token: { type: 'text', value: 'token', help: 'the token' },
  message: { type: 'text', alias: 'm', help: 'what it is about' },
  limit: { type: 'count', default: 5, minimum: 1, maximum: 50, help: 'so many' },
  ignore: { type: 'text', repeatable: true, help: 'left out' },
  store: { type: 'text', choices: ['global', 'local'], default: 'global', help: 'where' },
  wait: { type: 'text', choices: ['true', 'false'], bare: 'true', help: 'whether to wait' }
}
const operands: OperandTable = { first: { required: true, help: 'the first' }, second: { help: 'the second' } }
const defaults = {
  follow: false,
  timestamps: false,
  builtin: true,
  token: undefined,
  message: undefined,
  limit: 5,
  ignore: [],
  store: 'global',
  wait: undefined
}

const good: Array<[line: string, options: object, operands?: [string, string?]]> = [
  ['a', {}, ['a']],
  ['a b', {}, ['a', 'b']],
  ['a --follow', { follow: true }],
  ['a -f', { follow: true }],
  ['a -ft', { follow: true, timestamps: true }],
  ['--follow=false a', { follow: false }],
  ['--no-follow a', { follow: false }],
  ['-f --no-follow a', { follow: false }],
  ['--no-builtin a', { builtin: false }],
  ['--token x a', { token: 'x' }],
  ['--token=x a', { token: 'x' }],
  ['--message= a', { message: '' }],
  ['--token=x=y a', { token: 'x=y' }],
  ['--token - a', { token: '-' }],
  ['--token -dash a', { token: '-dash' }],
  ['--token -1 a', { token: '-1' }],
  ['--token --other a', { token: '--other' }],
  ['--token=--follow a', { token: '--follow' }],
  ['--token x --token y a', { token: 'y' }],
  ['-m text a', { message: 'text' }],
  ['-mtext a', { message: 'text' }],
  ['-m=text a', { message: 'text' }],
  ['-fm text a', { follow: true, message: 'text' }],
  ['--limit 50 a', { limit: 50 }],
  ['--ignore x --ignore=y a', { ignore: ['x', 'y'] }],
  ['--store local a', { store: 'local' }],
  ['--wait a', { wait: 'true' }],
  ['--wait=false a', { wait: 'false' }],
  ['--wait false a', { wait: 'false' }],
  ['--wait --follow a', { wait: 'true', follow: true }],
  ['a --wait', { wait: 'true' }],
  ['a --wait -- b', { wait: 'true' }, ['a', 'b']],
  ['-- a --follow', {}, ['a', '--follow']],
  ['- a', {}, ['-', 'a']]
]

for (const [line, expected, words = ['a']] of good) {
  t.test(`parseArgs understands: ${line}`, async t => {
    const parsed = parseArgs(line.split(' '), options, operands)
    t.strictSame(parsed.options, { ...defaults, ...expected })
    t.strictSame(parsed.operands, { first: words[0], second: words[1] })
    t.notOk(parsed.wantsHelp)
  })
}

const bad: Array<[line: string, sentence: string]> = [
  ['', '<first> is missing: the first'],
  ['a b c', 'Unexpected argument "c": this command accepts only 2 arguments'],
  ['--first a', 'Unknown option "--first": give the <first> as a word'],
  ['--folow a', 'Unknown option "--folow": did you mean "--follow"?'],
  ['--bultin a', 'Unknown option "--bultin"'],
  ['--no-bultin a', 'Unknown option "--no-bultin": did you mean "--no-builtin"?'],
  ['--helpp a', 'Unknown option "--helpp": did you mean "--help"?'],
  ['--constructor a', 'Unknown option "--constructor"'],
  ['-x a', 'Unknown option "-x"'],
  ['-fx a', 'Unknown option "-x"'],
  ['--no-token a', 'Unknown option "--no-token"'],
  ['a --token', '--token needs a value: the token'],
  ['a -m', '--message needs a value: what it is about'],
  [
    '--token --follow a',
    '--token needs a value: "--follow" is itself an option (write --token=--follow to pass it as the value)'
  ],
  ['--token -f a', '--token needs a value: "-f" is itself an option (write --token=-f to pass it as the value)'],
  [
    '--token --no-builtin a',
    '--token needs a value: "--no-builtin" is itself an option (write --token=--no-builtin to pass it as the value)'
  ],
  ['--follow=perhaps a', '--follow is a switch: "perhaps" is neither "true" nor "false"'],
  ['--token= a', '--token is empty: the token'],
  ['--limit 0 a', '--limit cannot be "0": it must be a whole number from 1 to 50'],
  ['--limit 51 a', '--limit cannot be "51": it must be a whole number from 1 to 50'],
  ['--limit 5x a', '--limit cannot be "5x": it must be a whole number from 1 to 50'],
  ['--limit=-1 a', '--limit cannot be "-1": it must be a whole number from 1 to 50'],
  ['--store cloud a', '--store cannot be "cloud": choose one of global, local']
]

for (const [line, sentence] of bad) {
  t.test(`parseArgs refuses: ${line}`, async t => {
    try {
      parseArgs(line === '' ? [] : line.split(' '), options, operands)
      t.fail('nothing was refused')
    } catch (error) {
      t.type(error, Refusal)
      t.match(error, { kind: 'usage' })
      t.equal((error as Error).message, sentence)
    }
  })
}

t.test('parseArgs requires no operand if help is requested', async t => {
  t.ok(parseArgs(['--help'], options, operands).wantsHelp)
  t.ok(parseArgs(['-h'], options, operands).wantsHelp)
  t.notOk(parseArgs(['--', '--help'], options, operands).wantsHelp)
})

t.test('wordsOf returns equivalent words without defaults', async t => {
  const lines = [
    ['a'],
    ['a', '--follow', '--no-builtin', '--token=-x y', '--limit=7', '--ignore=a', '--ignore=b', '--store=local'],
    ['a', '--message=']
  ]
  for (const line of lines) {
    const parsed = parseArgs(line, options, operands)
    t.same(wordsOf(options, parsed.options), line.slice(1))
  }
})

t.test('the last operand may take all words that are left', async t => {
  const table: OperandTable = { one: { required: true, help: 'one' }, more: { repeatable: true, help: 'more' } }
  const rest = (...words: string[]) => parseArgs(words, {}, table).operands
  t.strictSame(rest('a'), { one: 'a', more: [] })
  t.strictSame(rest('a', 'b', 'c'), { one: 'a', more: ['b', 'c'] })
  const needed: OperandTable = { all: { required: true, repeatable: true, help: 'all' } }
  t.strictSame(parseArgs(['a', 'b'], {}, needed).operands, { all: ['a', 'b'] })
  t.throws(() => parseArgs([], {}, needed), { kind: 'usage', message: /<all> is missing/ })
})
