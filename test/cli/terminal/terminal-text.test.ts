import t, { type Test } from 'tap'
import { createServer } from 'node:http'
import { cleanText, createCleaner, plainText } from '../../../lib/cli/terminal/terminal-text.js'
import { createRandom } from '../../support/random.js'
import { svc } from '../../support/svc.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'
import { repetitions } from '../../support/thorough.js'
import { urlOf } from '../../support/on-loopback.js'

/** All that may be left: text, newline, tab, colours. */
const harmless = /^(?:[^\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|\x1b\[[\d;:]*m)*$/

const cases: Array<[what: string, text: string, shown: string]> = [
  ['plain text, newline and tab', 'a\tb\nc “漢字” 🙂', 'a\tb\nc “漢字” 🙂'],
  [
    'colours',
    '\x1b[1;31mred\x1b[0m \x1b[38;5;1mx\x1b[0m \x1b[38:2::1:2:3my\x1b[m',
    '\x1b[1;31mred\x1b[0m \x1b[38;5;1mx\x1b[0m \x1b[38:2::1:2:3my\x1b[m'
  ],
  ['colours that are left on', '\x1b[31mred', '\x1b[31mred\x1b[0m'],
  [
    'colours of an index or of values, left on',
    '\x1b[38;5;0ma\n\x1b[48;2;0;0;0mb\n\x1b[38:2::0:0:0mc\n\x1b[31;4:0md\n\x1b[38;5;0;0me',
    '\x1b[38;5;0ma\x1b[0m\n\x1b[48;2;0;0;0mb\x1b[0m\n\x1b[38:2::0:0:0mc\x1b[0m\n\x1b[31;4:0md\x1b[0m\n\x1b[38;5;0;0me\x1b[0m'
  ],
  [
    'colours that are switched off one by one',
    '\x1b[1;31ma\x1b[22;39m \x1b[7mb\x1b[27m \x1b[91;103mc\x1b[39;49m',
    '\x1b[1;31ma\x1b[22;39m \x1b[7mb\x1b[27m \x1b[91;103mc\x1b[39;49m'
  ],
  ['hidden text, up to its line', '\x1b[8mhidden\nshown', '\x1b[8mhidden\x1b[0m\nshown'],
  ['a title', 'a\x1b]0;evil\x07b', 'ab'],
  ['the clipboard, ended by ST', 'a\x1b]52;c;ZXZpbA==\x1b\\b', 'ab'],
  ['a link', '\x1b]8;;https://evil.test\x1b\\text\x1b]8;;\x1b\\', 'text'],
  ['a device control string', 'a\x1bP+q544e\x1b\\b', 'ab'],
  ['application, privacy and start of string', 'a\x1b_x\x1b\\b\x1b^x\x1b\\c\x1bXx\x1b\\d', 'abcd'],
  ['a string that never ends hides its own line only', 'a\x1b]0;evil\nb', 'a\nb'],
  ['clearing, moving, scrolling', '\x1b[2J\x1b[1;1H\x1b[3;5r\x1b[?1049ha', 'a'],
  ['keys and marks that end with m, and are no colours', '\x1b[>4;2ma\x1b[?4mb\x1b[1 mc', 'abc'],
  ['a report that would be typed', '\x1b[6n\x1b[c\x1b[21t\x1b[5ia', 'a'],
  ['a full reset, and character sets', '\x1bca\x1b(0b\x1b#8c\x1b=', 'abc'],
  ['C1 controls', 'a\x9b2Jb\x9d0;evil\x9cc\x90x\x9cd\x85e', 'abcde'],
  ['the first C1 control ends a sequence', '\x1b[3\x801ma', '1ma'],
  ['the last C1 control', 'a\x9fx\x9cb', 'ab'],
  ['a colour of C1', 'a\x9b31mb\x9b0m', 'a\x1b[31mb\x1b[0m'],
  ['carriage return, backspace, bell, NUL, DEL', 'a\rb\bc\x07d\0e\x7ff', 'abcdef'],
  ['a sequence within another', '\x1b[3\x1b[2J1m\x1b]0;\x1b[2Jb', '1mb'],
  ['a control within a colour', 'a\x1b[3\x071mb\x1b[0m', 'a\x1b[31mb\x1b[0m'],
  ['a sequence that is cancelled', '\x1b[31\x18ma\x1b]0;evil\x1ab', 'mab'],
  ['a sequence cut off by a character', '\x1b[2é', 'é'],
  ['an unfinished sequence', 'a\x1b[31', 'a'],
  ['a colour that is too long', `a\x1b[${'1;'.repeat(100)}mb`, 'ab'],
  [
    'marks of direction',
    'exe.\u202etxt\u202c \u200e\u200f\u061c\u2066\u2069',
    'exe.\\u202etxt\\u202c \\u200e\\u200f\\u061c\\u2066\\u2069'
  ]
]

for (const [what, text, shown] of cases) t.test(`cleanText: ${what}`, async t => t.equal(cleanText(text), shown))

t.test('plainText is one line without colours', async t => {
  t.equal(plainText('a\x1b[2Jb\r\n\x1b[1;31mc\x1b[0m\td\u202e'), 'ab c d\\u202e')
})

t.test('removes everything but text and colours, wherever the input is cut', async t => {
  const pieces = [
    '\x1b',
    '\x1b[',
    '\x1b]',
    '\x1bP',
    '\x1b\\',
    '\x9b',
    '\x9d',
    '\x9c',
    '\x07',
    '\x18',
    '\n',
    '\t',
    '\r',
    '\0',
    '\x7f',
    '\x85',
    '0',
    ';',
    ':',
    '?',
    '>',
    ' ',
    '1',
    '31',
    'm',
    'J',
    'h',
    'text',
    'é',
    '漢',
    '🙂',
    '\u202e',
    '\u2066',
    '\ud800',
    '52;c;',
    '(',
    '\\',
    '\x1b[31m',
    '\x1b[0m'
  ]
  for (let seed = 1; seed <= repetitions(300, 3000); seed++) {
    const random = createRandom(seed)
    const text = random.some(40, () => random.oneOf(pieces)).join('')
    const whole = cleanText(text)
    const cleaner = createCleaner()
    let cut = ''
    for (let at = 0; at < text.length; ) {
      const next = at + 1 + random.below(4)
      // Decoders hand out whole characters.
      const end =
        /[\ud800-\udbff]/.test(text[next - 1] ?? '') && /[\udc00-\udfff]/.test(text[next] ?? '') ? next + 1 : next
      cut += cleaner.push(text.slice(at, end))
      at = end
    }
    cut += cleaner.end()
    const isRight = harmless.test(whole) && cut === whole && cleanText(whole) === whole
    if (!isRight) return void t.fail(`seed ${seed}`, { text, whole, cut })
  }
  t.pass('3000 texts')
})

const evil = '\x1b]0;evil\x07\x1b[2J\x9b1A\r\x1b[31mred\u202e'
const shown = '\x1b[31mred\\u202e'

/** A server whose every word is an attack. */
async function startServer(t: Test): Promise<string> {
  const project = {
    id: 'proj_1',
    name: evil,
    status: 'idle',
    env: evil,
    deployPath: evil,
    token: 'x',
    lastDeployAt: null
  }
  const deployment = {
    id: 'dep_1',
    projectId: 'proj_1',
    projectName: evil,
    status: 'success',
    startTime: new Date().toISOString(),
    message: evil,
    triggerSource: evil,
    rollbackOf: null,
    hasArtifact: true
  }
  const server = createServer((request, response) => {
    request.resume()
    const path = new URL(request.url as string, 'http://x').pathname
    const answer = (type: string, text: string, status = 200): void =>
      void response.writeHead(status, { 'content-type': type }).end(text)
    if (path === '/api/projects') answer('application/json', JSON.stringify([project]))
    else if (path === '/api/projects/proj_1') answer('application/json', JSON.stringify(project))
    // As a server of an earlier version.
    else if (path === '/api/auth/whoami') answer('application/json', JSON.stringify({ error: evil }), 404)
    else if (path === '/api/logs')
      answer('application/json', JSON.stringify([{ ...deployment, id: 'dep_2' }, deployment]))
    else if (path.endsWith('/output')) {
      // Cut within sequences and characters.
      response.writeHead(200, { 'content-type': 'text/plain' })
      const bytes = Buffer.from(`${evil}\nend\n`)
      void (async () => {
        for (const byte of bytes) {
          response.write(Buffer.of(byte))
          await new Promise(resolve => setImmediate(resolve))
        }
        response.end()
      })()
    } else if (path.endsWith('/stream')) {
      answer(
        'text/event-stream',
        `event: log\ndata: ${JSON.stringify({ data: evil })}\n\nevent: status\ndata: {"status":"failed","duration":"1s"}\n\n`
      )
    } else answer('application/json', JSON.stringify({ error: evil, code: 'x' }), 409)
  })
  return await urlOf(t, server)
}

t.test('control sequences of a server never reach a terminal', { skip: noTerminal }, async t => {
  const url = await startServer(t)
  const env = { SVC_SERVER_URL: url, SVC_TOKEN: 'token' }
  const cwd = t.testdir({
    'svc.config.json': JSON.stringify({ projectId: 'proj_1', outputDir: evil }),
    [evil.replace(/\//g, '')]: { 'index.html': 'x' }
  })
  const commands = [
    ['list'],
    ['list', '--json'],
    ['logs', 'dep_1'],
    ['logs', '-f', 'dep_1'],
    ['cancel', 'dep_1'],
    ['push', '--token', 'x'],
    ['config']
  ]
  for (const words of commands) {
    const { text } = await svcOnTerminal(words, [], { cwd, env })
    const own = text.replace(/\r\n/g, '\n').replace(/\r\x1b\[K/g, '')
    t.match(own, 'red', words.join(' '))
    t.match(own, harmless, words.join(' '))
  }
  const { text } = await svcOnTerminal(['rollback'], [{ see: '[y/N]: ', type: 'n\r' }], { cwd, env })
  const question = text.split('[y/N]')[0] as string
  t.match(
    question,
    /^Chosen: [^\x1b]*\r\n\x1b\[1G\x1b\[0JRoll back [^\x00-\x1f\x7f-\x9f]*red\\u202e to dep_1 \([^\x00-\x1f\x7f-\x9f]*red\\u202e"\) $/,
    'the question too; moving is readline’s'
  )
})

t.test('without a terminal, results are unchanged and errors are cleaned', async t => {
  const url = await startServer(t)
  const options = { cwd: t.testdir({}), env: { SVC_SERVER_URL: url, SVC_TOKEN: 'token' } }
  t.equal((await svc(['logs', 'dep_1'], options)).stdout, `${evil}\nend\n`)
  t.equal((await svc(['logs', '-f', 'dep_1'], options)).stdout, `${evil}\n`)
  t.equal((await svc(['cancel', 'dep_1'], options)).stderr, `error: ${shown}\x1b[0m\n`)
})
