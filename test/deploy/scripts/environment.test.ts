import t from 'tap'
import {
  acceptClientEnv,
  createMasker,
  linesOfDropped,
  type MaskedLines,
  scriptEnvironment
} from '../../../lib/deploy/scripts/environment.js'
import { deploySays } from '../../support/sentences/deploy.js'
import { createLineSplitter } from '../../../lib/base/text.js'
import { createRandom } from '../../support/random.js'
import { until } from '../../support/until.js'

const facts = {
  project: { id: 'proj_1', name: 'Shop', deployPath: '/srv/shop', env: 'staging' },
  deployId: 'dep_2',
  rollbackOf: null,
  previousDeployId: 'dep_1'
}

t.test('refuses client variables that make programs run other code', async t => {
  const denied = [
    'PATH',
    'LD_PRELOAD',
    'LD_LIBRARY_PATH',
    'DYLD_INSERT_LIBRARIES',
    'NODE_OPTIONS',
    'BASH_ENV',
    'ENV',
    'IFS',
    'SHELLOPTS',
    'PYTHONPATH',
    'SVC_DEPLOY_ID',
    'SVC_',
    'BASH_FUNC_ls%%',
    'PS4',
    'PERL5OPT',
    '',
    'A=B',
    'A\0'
  ]
  for (const allowed of [null, ['*', ...denied, 'P*', 'L*', 'S*']]) {
    const { accepted, dropped } = acceptClientEnv(Object.fromEntries(denied.map(name => [name, 'x'])), allowed)
    t.strictSame(dropped.map(({ name }) => name).sort(), denied.sort())
    t.strictSame(accepted, {})
  }
})

t.test('passes all other variables unchanged if client scripts are allowed', async t => {
  const sent = {
    NODE_ENV: 'production',
    env: 'x',
    LDFLAGS: '-s',
    API: 'a=b\nc',
    EMPTY: '',
    MY_SVC_NAME: 'y',
    __proto: 'z'
  }
  t.strictSame(acceptClientEnv(sent, null), { accepted: sent, dropped: [] })
  t.match(acceptClientEnv({ NUL: 'a\0b' }, null).dropped, [{ name: 'NUL' }])
})

t.test('the output names dropped variables by reason, without values', async t => {
  const sent = { PATH: 'secret-1', LD_PRELOAD: 'secret-2', 'GIT_SSH\n✓ success': 'secret-3', APP: 'a' }
  const lines = linesOfDropped(acceptClientEnv(sent, ['APP']).dropped)
  t.strictSame(lines, [
    deploySays.variablesNeverSet('PATH', 'LD_PRELOAD'),
    deploySays.variablesNotAllowed('GIT_SSH\n✓ success')
  ])
  const many = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`V${index}`, '']))
  t.match(linesOfDropped(acceptClientEnv(many, []).dropped), [/"V49", and 10 more \(/])
})

t.test('a script gets the server environment without secrets, the client variables and SVC_*', async t => {
  const inherited = {
    PATH: '/bin',
    HOME: '/root',
    ADMIN_TOKEN: 's',
    SVC_HOME: '/h',
    SVC_TOKEN: 't',
    SVC_DEPLOY_TOKEN: 'u',
    NODE_CHANNEL_FD: '3'
  }
  t.strictSame(
    scriptEnvironment({ inherited, accepted: { NODE_ENV: 'production', HOME: '/x' }, facts, rights: null }),
    {
      PATH: '/bin',
      HOME: '/x',
      NODE_ENV: 'production',
      SVC_PROJECT_ID: 'proj_1',
      SVC_PROJECT_NAME: 'Shop',
      SVC_DEPLOY_ID: 'dep_2',
      SVC_DEPLOY_PATH: '/srv/shop',
      SVC_ENV: 'staging',
      SVC_DEPLOY_MODE: 'deploy',
      SVC_ROLLBACK_OF: '',
      SVC_PREVIOUS_DEPLOY_ID: 'dep_1',
      SVC_CHANGES: '',
      SVC_FAILURE: '',
      SVC_FAILURE_REASON: ''
    }
  )
  const rollback = scriptEnvironment({
    inherited: {},
    accepted: {},
    facts: { ...facts, rollbackOf: 'dep_0', previousDeployId: null },
    rights: null
  })
  t.match(rollback, { SVC_DEPLOY_MODE: 'rollback', SVC_ROLLBACK_OF: 'dep_0', SVC_PREVIOUS_DEPLOY_ID: '' })
})

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
