import t from 'tap'
import { configSays } from '../../support/sentences/config.js'
import { matching } from '../../support/sentences/matching.js'
import { isKeptSecret, readServerFile, jsonLines, lineOfPath } from '../../../lib/cli/server-file/format.js'

const read = (parts: object, env: Record<string, string> = {}) =>
  readServerFile(JSON.stringify({ format: 'svc-server-1', ...parts }), { name: 'file', env })

t.test('secrets come from the environment; scripts keep their variables', async t => {
  const { file } = read(
    {
      settings: { webhook_secret: '${A}', default_deploy_path: '/srv/${A}', keep_archives: ' 7 ' },
      projects: [
        {
          name: 'shop',
          deployPath: '/srv//shop/',
          postDeployScript: 'echo ${A}',
          allowedEnv: ['A', 'A'],
          variables: { PLAIN: '${A}', KEY: { secret: 'x${A}${B}' } },
          policy: { gate: { after: [{ http: 'http://x/', header: { 'X-Key': 'Bearer ${B}' } }] } }
        }
      ],
      notificationTargets: [{ name: 'team', url: 'https://x/${A}', secret: '***' }]
    },
    { A: 'one-secret', B: 'two' }
  )
  t.same(file.settings, { webhook_secret: 'one-secret', default_deploy_path: '/srv/${A}', keep_archives: '7' })
  t.match(file.projects, [
    {
      deployPath: '/srv/shop',
      postDeployScript: 'echo ${A}',
      allowedEnv: ['A'],
      variables: { PLAIN: '${A}', KEY: { secret: 'xone-secrettwo' } },
      policy: { gate: { after: [{ header: { 'X-Key': 'Bearer two' } }] } }
    }
  ])
  t.same(Object.keys(file.projects?.[0] ?? {}).sort(), [
    'allowedEnv',
    'deployPath',
    'name',
    'policy',
    'postDeployScript',
    'variables'
  ])
  t.match(file.notificationTargets, [{ url: 'https://x/one-secret', secret: '***' }])
})

t.test('a path of the server is not checked on this machine', async t => {
  const settings = { outgoing_ca: '/absent/ca.pem', webhook_secret: '***', webhook_url: 'https://x/…' }
  t.same(read({ settings }).file.settings, settings)
  t.throws(() => read({ settings: { outgoing_cb: '/absent' } }), { message: /line 1: Unknown setting "outgoing_cb"/ })
})

t.test('a mask keeps the secret of the server', async t => {
  for (const text of ['***', 'https://x/…']) t.ok(isKeptSecret(text))
  for (const text of ['', 'https://x/', '****']) t.notOk(isKeptSecret(text))
})

t.test('each value of a JSON text has its line', async t => {
  const text = '{\n"a": {\n"b.c": [\n1,\n{"d": "x\\"}\\n["},\n[2,\n3]]},\n"e": {}, "f": []\n}'
  const lines = jsonLines(text)
  const expected = { a: 2, 'a.b.c': 3, 'a.b.c[0]': 4, 'a.b.c[1].d': 5, 'a.b.c[2]': 6, 'a.b.c[2][1]': 7, e: 8, f: 8 }
  for (const [path, line] of Object.entries(expected)) t.equal(lines.get(path), line, path)
  t.equal(lineOfPath(lines, 'a.b.c[1].missing[3].x'), 5, 'the nearest value around it')
  t.equal(lineOfPath(lines, 'missing'), 1)
})

t.test('a key that is given twice is refused', async t => {
  const text = '{"format": "svc-server-1",\n"projects": [{"name": "a",\n"name": "b"}]}'
  t.throws(() => readServerFile(text, { name: 'file', env: {} }), {
    code: 'broken_config',
    message: matching(configSays.unreadable('file'), configSays.keyTwice('name', 3))
  })
})
