import t from 'tap'
import { EventEmitter } from 'node:events'
import { PassThrough } from 'node:stream'
import type { Output, Host } from '../../../lib/cli/terminal/output.js'
import {
  ask,
  askSecret,
  canAsk,
  choose,
  confirm,
  confirmation,
  Interrupted,
  mustAsk,
  readSecret,
  withInterrupts
} from '../../../lib/cli/terminal/prompt.js'

/** A host on which `typed` is typed, all at once; what is a terminal of it, and what was said. */
function hostOf(typed: string | Buffer, { stdin = true, stderr = true, env = {} } = {}) {
  const input = Object.assign(new PassThrough(), {
    isTTY: stdin,
    isRaw: false,
    setRawMode: (isRaw: boolean) => {
      input.isRaw = isRaw
    }
  })
  const errors = Object.assign(new PassThrough().setEncoding('utf8'), { isTTY: stderr, columns: 80 })
  input.write(typed)
  return {
    host: { stdin: input, stderr: errors, env } as unknown as Host,
    input,
    said: (): string => (errors.read() as string | null) ?? ''
  }
}

t.test('questions are asked only if input and error output are terminals', async t => {
  for (const [stdin, stderr] of [
    [true, true],
    [true, false],
    [false, true],
    [false, false]
  ] as const) {
    const { host } = hostOf('', { stdin, stderr })
    t.equal(canAsk(host), stdin && stderr)
    if (stdin && stderr) t.doesNotThrow(() => mustAsk(host, 'It', 'give --it'))
    else
      t.throws(() => mustAsk(host, 'It', 'give --it'), {
        code: 'needs_terminal',
        message: 'It, but there is no terminal to ask on: give --it'
      })
  }
})

t.test('an empty answer selects the default that the question shows', async t => {
  const { host, said } = hostOf('\n')
  t.equal(await ask(host, 'Name', 'shop'), 'shop')
  t.match(said(), 'Name [shop]: ')
  const { host: other, said: saidThere } = hostOf(' x \n')
  t.equal(await ask(other, 'Name'), 'x')
  t.match(saidThere(), 'Name: ')
})

t.test('accepts yes and no, and repeats the question for other answers', async t => {
  for (const [typed, expected] of [
    ['y\n', true],
    ['YES\n', true],
    ['n\n', false],
    ['no\n', false],
    ['\n', false]
  ] as const) {
    t.equal(await confirm(hostOf(typed).host, 'Go on'), expected, typed)
  }
  const { host, input, said } = hostOf('maybe\n')
  const answer = confirm(host, 'Go on')
  setImmediate(() => input.write('y\n'))
  t.equal(await answer, true)
  t.equal(said().split('Go on [y/N]: ').length - 1 >= 2, true)
})

t.test('selects one of several by number or name', async t => {
  t.equal(await choose(hostOf('2\n').host, 'Which', ['a', 'b']), 'b')
  t.equal(await choose(hostOf('a\n').host, 'Which', ['a', 'b']), 'a')
  const { host, input, said } = hostOf('3\n')
  const answer = choose(host, 'Which', ['a', 'b'])
  setImmediate(() => input.write('1\n'))
  t.equal(await answer, 'a')
  t.match(said(), 'Enter a number from 1 to 2, or a name.')
})

t.test('a secret is read without echo, and pasted text after it is kept', async t => {
  const { host, input, said } = hostOf('geheim\x01X\x7f\x7ft ü\r\nnext')
  t.equal(await askSecret(host, 'Token'), 'geheit ü')
  t.equal(said(), 'Token: \n')
  t.equal(input.isRaw, false)
  t.equal(String(input.read()), '\nnext')
  for (const end of ['\x03', '\x04'])
    await t.rejects(askSecret(hostOf(`half${end}`).host, 'Token'), { name: 'Interrupted' })
  const { host: whole, input: nothing } = hostOf('all\n')
  t.equal(await askSecret(whole, 'Token'), 'all')
  t.equal(nothing.read(), null)
  const { host: slow, input: slowly } = hostOf('in ')
  const answer = askSecret(slow, 'Token')
  setImmediate(() => slowly.write('parts\n'))
  t.equal(await answer, 'in parts')
})

t.test('nobody is asked on the terminal of a CI job', async t => {
  const { host } = hostOf('', { env: { CI: 'true' } })
  t.notOk(canAsk(host))
  await t.rejects(readSecret(host, '--token', '-'), { code: 'needs_terminal' })
})

t.test('the value "-" reads standard input', async t => {
  t.equal(await readSecret(hostOf('').host, '--token', 'value'), 'value')
  const read = (text: string): Promise<string> => {
    const { host, input } = hostOf(text, { stdin: false })
    input.end()
    return readSecret(host, '--token', '-')
  }
  t.equal(await read('one\r\n'), 'one')
  t.equal(await read('x'.repeat(64 * 1024)), 'x'.repeat(64 * 1024))
  await t.rejects(read('\n'), { code: 'usage', field: '--token' })
  await t.rejects(read('x'.repeat(64 * 1024 + 1)), { code: 'too_large' })
  const { host, said } = hostOf('asked\n')
  t.equal(await readSecret(host, '--token', '-'), 'asked')
  t.match(said(), /^token: /)
})

const hostWith = (isTTY: boolean): Host & EventEmitter =>
  Object.assign(new EventEmitter(), { stderr: { isTTY } }) as unknown as Host & EventEmitter

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  t.test(`${signal} on a terminal aborts the work, and the listeners are removed`, async t => {
    const host = hostWith(true)
    const work = withInterrupts(host, async aborted => {
      host.emit(signal)
      aborted.throwIfAborted()
    })
    await t.rejects(work, Interrupted)
    t.same(host.eventNames(), [])
  })
}

t.test('without a terminal, SIGHUP is not handled, so that nohup works', async t => {
  const host = hostWith(false)
  await withInterrupts(host, async () => t.same(host.eventNames(), ['SIGINT', 'SIGTERM']))
  t.same(host.eventNames(), [])
})

t.test('a confirmation asks, refuses without a terminal, and asks nothing with --yes', async t => {
  const notes: string[] = []
  const contextOf = (typed: string, terminal = {}) => ({
    host: hostOf(typed, terminal).host,
    output: { note: (text: string) => void notes.push(text) } as unknown as Output
  })
  const what = 'Deleting it'
  t.equal(await confirmation(contextOf('y\n'), { yes: false, what })('Delete it?'), true)
  t.same(notes, [])
  t.equal(await confirmation(contextOf('n\n'), { yes: false, what })('Delete it?'), false)
  t.equal(await confirmation(contextOf('\n'), { yes: false, what, done: 'deleted' })('Delete it?'), false)
  t.same(notes, ['Nothing was changed.', 'Nothing was deleted.'])
  const none = contextOf('', { stdin: false })
  t.throws(() => confirmation(none, { yes: false, what }), {
    code: 'needs_terminal',
    message: 'Deleting it needs a confirmation, but there is no terminal to ask on: use --yes'
  })
  t.equal(await confirmation(none, { yes: true, what })('Delete it?'), true)
})
