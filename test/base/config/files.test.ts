import t from 'tap'
import { spawn } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createHash } from 'node:crypto'
import { chmod, chown, readFile, stat, writeFile } from 'node:fs/promises'
import {
  parseDotenv,
  parseJsonObject,
  readDotenv,
  removeEndedLocks,
  setDotenv,
  withLock,
  writeDotenv
} from '../../../lib/base/config/files.js'
import { configSays } from '../../support/sentences/config.js'
import { processSpace, processStart } from '../../../lib/base/runtime.js'

t.test('refuses a broken file with path, line and column', t => {
  const table: Array<[text: string, sentence: string]> = [
    ['{\n  "a": 1,\n}', configSays.unreadable('f.json') + configSays.notJson(3, 1, '"}"')],
    ['{"a" 1}', configSays.notJson(1, 6, '"1"')],
    ['{"a": tru}', configSays.notJson(1, 7, '"tru"')],
    ['{"a": 1', configSays.notJson(1, 8, configSays.endOfFile)],
    ['{"a": "x\ny"}', configSays.notJson(1, 7, '"""')],
    ['{a: 1}', configSays.notJson(1, 2, '"a"')],
    ["{'a': 1}", configSays.notJson(1, 2, '"\'"')],
    ['{"a": [1, 2,]}', configSays.notJson(1, 13, '"]"')],
    ['{"a": [1 2]}', configSays.notJson(1, 10, '"2"')],
    ['{"a": {}} x', configSays.notJson(1, 11, '"x"')],
    ['{"a": 01}', configSays.notJson(1, 8, '"1"')],
    ['// c\n{}', configSays.notJson(1, 1, '"/"')],
    ['{"a": "\\x"}', configSays.notJson(1, 7, '"""')],
    ['{"a": 1]', configSays.notJson(1, 8, '"]"')],
    ['{"a": [}', configSays.notJson(1, 8, '"}"')],
    ['{"a": {"b": 1},\n"c": [{"d": 1,\n"d": 2}]}', configSays.keyTwice('d', 3)],
    ['[]', configSays.notAnObject],
    ['null', configSays.notAnObject],
    ['"x"', configSays.notAnObject],
    [`{"a":[${'[],'.repeat(1_500_000)}[]]}`, configSays.tooLong(4_194_304)]
  ]
  for (const [text, sentence] of table) {
    t.throws(() => parseJsonObject(text, 'f.json'), { code: 'broken_config' }, text.slice(0, 40))
    try {
      parseJsonObject(text, 'f.json')
    } catch (error) {
      t.match((error as Error).message, sentence, text.slice(0, 40))
    }
  }
  t.end()
})

t.test('reads an empty file as an empty object, and skips a byte order mark', t => {
  t.strictSame(parseJsonObject('', 'f'), {})
  t.strictSame(parseJsonObject(' \n', 'f'), {})
  t.strictSame(parseJsonObject('\ufeff{"a":[1,{"b":null}]}', 'f'), { a: [1, { b: null }] })
  t.end()
})

const program = fileURLToPath(new URL('./adding-program.js', import.meta.url))
const here = createHash('sha256').update(processSpace()).digest('hex').slice(0, 12)
const elsewhere = '0123456789ab'
const noProc = processStart(process.pid) === null && 'this system does not report when a process started'

t.test('loses no update of several processes, with stale locks and killed processes', { skip: noProc }, async t => {
  const directory = t.testdir({ 'config.json': '{"n": 0}' })
  let acknowledged = 0
  let killed = 0
  const run = async (seed: number): Promise<void> => {
    const child = spawn(process.execPath, [program, directory, '40', String(seed)], {
      stdio: ['ignore', 'pipe', 'inherit']
    })
    const ended = once(child, 'close')
    let own = 0
    child.stdout.on('data', (chunk: Buffer) => {
      own += chunk.length / 2
      if (seed % 3 === 0 && own > 10 * (seed + 1) && child.kill('SIGKILL')) killed++
    })
    await ended
    acknowledged += own
  }
  await Promise.all([0, 1, 2, 3].map(run))
  const { n } = JSON.parse(readFileSync(join(directory, 'config.json'), 'utf8'))
  t.ok(n >= acknowledged && n <= acknowledged + killed, `${n} updates, ${acknowledged} acknowledged, ${killed} killed`)
  await withLock(join(directory, 'config.json'), async () => {})
  t.same(
    readdirSync(directory).filter(name => name.includes('.lock.')),
    []
  )
})

t.test('runs one caller at a time within a process, too', async t => {
  const path = join(t.testdir(), 'config.json')
  let inside = 0
  const work = async (): Promise<void> => {
    t.equal(++inside, 1)
    await new Promise(setImmediate)
    inside--
  }
  await Promise.all(Array.from({ length: 30 }, () => withLock(path, work)))
})

t.test('decides which locks are stale', async t => {
  const own = processStart(process.pid) ?? ''
  const cases: Array<[name: string, outcome: 'passed' | 'refused', what: string]> = [
    [`${here}-${process.pid}-${own}-0123456789ab`, noProc ? 'passed' : 'refused', 'of a live process'],
    [`${here}-${process.pid}-1-0123456789ab`, 'passed', 'of a previous process with this id'],
    [`${elsewhere}-1-1-0123456789ab`, 'passed', 'of another machine, stale'],
    ['', 'passed', 'of an older version']
  ]
  for (const [name, outcome, what] of cases) {
    for (const seconds of [0, 4_000_000_000]) {
      const path = join(t.testdir(), 'config.json')
      const lock = name === '' ? `${path}.lock` : `${path}.lock.${name}`
      writeFileSync(lock, '')
      utimesSync(lock, seconds, seconds)
      const ran = await withLock(path, async () => 'passed', { staleMs: 50, waitMs: 400 }).catch(error => error)
      if (outcome === 'passed') t.equal(ran, 'passed', `${what}: passed`)
      else t.match(ran, { code: 'file_locked', message: String(process.pid) }, what)
      t.same(
        readdirSync(join(path, '..')).filter(other => other.includes('.lock.')),
        outcome === 'refused' ? [lock.slice(lock.lastIndexOf('/') + 1)] : []
      )
    }
  }
})

t.test('respects the lock of a live process until it is stale', async t => {
  const path = join(t.testdir(), 'config.json')
  // A lock that was written on a system without start times of processes.
  const lock = `${path}.lock.${here}-${process.pid}--0123456789ab`
  writeFileSync(lock, '')
  await t.rejects(
    withLock(path, async () => {}, { staleMs: 60_000, waitMs: 100 }),
    { code: 'file_locked' }
  )
  t.equal(await withLock(path, async () => 'passed', { staleMs: 50, waitMs: 60_000 }), 'passed', 'and not for longer')
})

t.test('releases the lock after a failure', async t => {
  const path = join(t.testdir(), 'config.json')
  await t.rejects(
    withLock(path, async () => {
      throw new Error('no')
    }),
    { message: 'no' }
  )
  t.equal(await withLock(path, async () => 1), 1)
  mkdirSync(join(path, '..', 'config.json.lock.not-one'))
  t.equal(await withLock(path, async () => 2), 2, 'a file with another kind of name is not a lock')
})

t.test('removes only the locks of processes that have ended', { skip: noProc }, async t => {
  const directory = t.testdir()
  const path = join(directory, 'config.json')
  const left = `config.json.lock.${here}-${process.pid}-1-0123456789ab`
  const others = [
    `config.json.lock.${here}-${process.pid}-${processStart(process.pid)}-0123456789ab`,
    `config.json.lock.${elsewhere}-1-1-0123456789ab`,
    'config.json.lock.notes'
  ]
  for (const name of [left, ...others]) writeFileSync(join(directory, name), '')
  t.same(await removeEndedLocks(path), [join(directory, left)])
  t.same(readdirSync(directory).sort(), others.sort())
})

const noModes = process.platform === 'win32' ? 'Windows has no permission bits' : false

t.test('parses .env files', t => {
  const table: Array<[text: string, values: Record<string, string>]> = [
    ['', {}],
    ['A=1', { A: '1' }],
    ['A=1\nB=2\n', { A: '1', B: '2' }],
    ['A=1\r\nB= 2 \r\n', { A: '1', B: '2' }],
    ['\ufeffA=1\nB=2', { A: '1', B: '2' }],
    ['\ufeffexport A=1', { A: '1' }],
    ['A=\nB=2', { A: '', B: '2' }],
    ['# A=1\n  # B=2\nC=3', { C: '3' }],
    ['export A=1\n  export  B = 2', { A: '1', B: '2' }],
    ['A=one two # three', { A: 'one two' }],
    ['A=one#two', { A: 'one#two' }],
    ['A=#two', { A: '' }],
    ['A=https://x.example/?a=b&c=d', { A: 'https://x.example/?a=b&c=d' }],
    [`A='one # "two" \\n $B'`, { A: 'one # "two" \\n $B' }],
    ['A="one # \'two\'" # three', { A: "one # 'two'" }],
    ['A="a\\nb\\tc\\"d\\\\e\\$f\\x"', { A: 'a\nb\tc"d\\e$f\\x' }],
    ['A="one\ntwo"\nB=3', { A: 'one\ntwo', B: '3' }],
    ["A='one\ntwo'\nB=3", { A: 'one\ntwo', B: '3' }],
    ['A="never closed\nB=2', { A: '"never closed', B: '2' }],
    ['A=1\nA=2', { A: '2' }],
    ['no assignment\n=3\n1A=2\nB=2', { B: '2' }],
    ['A=$HOME', { A: '$HOME' }],
    ['A=ä "q"', { A: 'ä "q"' }],
    ['__proto__=1', JSON.parse('{"__proto__": "1"}')]
  ]
  for (const [text, values] of table)
    t.strictSame(Object.entries(parseDotenv(text)), Object.entries(values), JSON.stringify(text))
  t.end()
})

t.test('changes one line when a key is set', t => {
  const table: Array<[before: string, value: string, after: string]> = [
    ['', 'x', 'K=x\n'],
    ['A=1', 'x', 'A=1\nK=x\n'],
    ['A=1\r\n', 'x', 'A=1\r\nK=x\r\n'],
    ['# top\nK=old # why\nB=2\n', 'x', '# top\nK=x\nB=2\n'],
    ['A=1\r\nK=old\r\nB=2\r\n', 'x', 'A=1\r\nK=x\r\nB=2\r\n'],
    ['export K="old\nlines"\nB=2', 'x', 'export K=x\nB=2'],
    ['K=1\nK=2\n', 'x', 'K=1\nK=x\n'],
    ['# K=1\nKK=2\n', 'x', '# K=1\nKK=2\nK=x\n'],
    ['', 'a b', 'K="a b"\n'],
    ['', 'a"$\\\n\r#', 'K="a\\"\\$\\\\\\n\\r#"\n'],
    ['', '', 'K=\n']
  ]
  for (const [before, value, after] of table) {
    t.equal(setDotenv(before, 'K', value), after, JSON.stringify(before))
    t.equal(parseDotenv(after)['K'], value, 'and is read again as it was set')
  }
  t.end()
})

t.test('reads only the keys of svc from .env.local, and nothing if the file is missing', async t => {
  const directory = t.testdir({ '.env.local': 'SVC_TOKEN=a\nSECRET=b\nADMIN_TOKEN="c d"\nSVC_SERVER_URL=\n' })
  t.strictSame(await readDotenv(directory, 'client'), {
    path: join(directory, '.env.local'),
    values: { SVC_TOKEN: 'a', ADMIN_TOKEN: 'c d' },
    problem: null,
    warnings: []
  })
  t.strictSame((await readDotenv(join(directory, 'none'), 'server')).values, {})
})

t.test('says why a file sets nothing, and which keys it sets more than once', async t => {
  const directory = t.testdir({ dir: { '.env.local': {} }, loop: { '.env.local': t.fixture('symlink', '.env.local') } })
  for (const name of ['dir', 'loop']) {
    const { values, problem, warnings } = await readDotenv(join(directory, name), 'client')
    t.strictSame(values, {}, name)
    t.match(problem, /^Cannot read ".*env\.local", so it sets nothing: /, name)
    t.strictSame(warnings, [problem], name)
  }
  const twice = t.testdir({
    '.env.local': 'SVC_TOKEN=a\nOTHER=1\nOTHER=2\nSVC_TOKEN=b\nSVC_PROJECT_ID=c\nSVC_PROJECT_ID=c\n'
  })
  const { values, warnings } = await readDotenv(twice, 'client')
  t.match([values, warnings], [{ SVC_TOKEN: 'b' }, [/sets SVC_TOKEN more than once: the last value counts$/]])
  t.equal(warnings.length, 1)
})

t.test('refuses a value that is not UTF-8, and a change of a file that has such lines', async t => {
  const directory = t.testdir({})
  const path = join(directory, '.env.local')
  const written = (text: string) => writeFile(path, Buffer.from(text, 'latin1'), { mode: 0o600 })
  await written('SVC_PRE_DEPLOY=echo \xe9\n')
  await t.rejects(readDotenv(directory, 'client'), { code: 'not_utf8' })
  await written('OTHER=\xe9\nSVC_TOKEN=a\n')
  t.strictSame((await readDotenv(directory, 'client')).values, { SVC_TOKEN: 'a' })
  await t.rejects(writeDotenv(directory, 'SVC_TOKEN', 'b'), { code: 'not_utf8' })
  t.equal(await readFile(path, 'latin1'), 'OTHER=\xe9\nSVC_TOKEN=a\n')
})

t.test('warns of keys that look like those of svc', async t => {
  const directory = t.testdir({ '.env.local': 'SVC_OUTPUT_DR=a\nSVC_HOME=/b\nOTHER=c\nSVC_PROJECT_ID=proj_a\n' })
  const { values, warnings } = await readDotenv(directory, 'client')
  t.strictSame(values, { SVC_PROJECT_ID: 'proj_a' })
  t.match(warnings, [
    /SVC_OUTPUT_DR.*Did you mean SVC_OUTPUT_DIR\?/,
    /SVC_HOME, which svc does not read from this file/
  ])
  t.equal(warnings.length, 2)
  const unset = t.testdir({
    '.env.local': 'SVC_SERVER_URL: http://a\n# SVC_TOKEN x\nexport SVC_TOKEN b\nADMIN_TOKEN =c\n'
  })
  t.match((await readDotenv(unset, 'client')).warnings, [
    /names SVC_SERVER_URL without "=", so it sets nothing: write SVC_SERVER_URL=value$/,
    /names SVC_TOKEN without "="/
  ])
})

t.test(
  'creates a file with mode 0600, and keeps the mode and the other lines of an existing one',
  { skip: noModes },
  async t => {
    const directory = t.testdir({})
    const path = await writeDotenv(directory, 'SVC_DEPLOY_TOKEN', 'x')
    t.equal((await stat(path)).mode & 0o777, 0o600)
    await chmod(path, 0o640)
    await writeDotenv(directory, 'SVC_TOKEN', 'y z')
    await writeDotenv(directory, 'SVC_DEPLOY_TOKEN', 'w')
    t.equal((await stat(path)).mode & 0o777, 0o640)
    t.equal(await readFile(path, 'utf8'), 'SVC_DEPLOY_TOKEN=w\nSVC_TOKEN="y z"\n')
  }
)

t.test('refuses a .env.local that another user could change, if it sets a key of svc', { skip: noModes }, async t => {
  const isRoot = process.getuid?.() === 0
  const cases: Array<[what: string, mode: number, uid: number | null, server: boolean, client: boolean]> = [
    ['only the owner', 0o600, null, true, true],
    ['others have read access', 0o644, null, true, true],
    ['others have write access', 0o646, null, false, false],
    ['its private group has write access', 0o664, null, false, process.getgid?.() === process.getuid?.()],
    ['owned by another user', 0o600, 65_534, false, !isRoot]
  ]
  for (const [what, mode, uid, server, client] of cases) {
    if (uid !== null && !isRoot) {
      t.comment(`not root: "${what}" cannot be made`)
      continue
    }
    const directory = t.testdir({ '.env.local': 'SVC_TOKEN=a\n' })
    const path = join(directory, '.env.local')
    if (uid !== null) await chown(path, uid, uid)
    await chmod(path, mode)
    for (const [reader, isTaken] of [
      ['server', server],
      ['client', client]
    ] as const) {
      if (isTaken) t.match(await readDotenv(directory, reader), { values: { SVC_TOKEN: 'a' } }, `${what}: ${reader}`)
      else
        await t.rejects(
          readDotenv(directory, reader),
          {
            code: 'unsafe_dotenv',
            message: configSays.unsafeDotenv
          },
          `${what}: ${reader}`
        )
    }
    await writeFile(path, 'OTHER=a\n')
    t.match(await readDotenv(directory, 'server'), { values: {} }, `${what}: without a key of svc`)
  }
})
