import { chmod, chown, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { parseDotenv, readDotenv, setDotenv, writeDotenv } from '../../lib/config/dotenv.js'
import { configSays } from '../support/sentences/config.js'

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
    warnings: []
  })
  t.strictSame((await readDotenv(join(directory, 'none'), 'server')).values, {})
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
