import t from 'tap'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { svc } from '../../support/svc.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'

const tokenOf = (cwd: string) =>
  (JSON.parse(readFileSync(join(cwd, '.svc/config.json'), 'utf8')) as { adminToken: string }).adminToken
const strong = 'a-strong-admin-token-with-1-digit'

t.test('admin reset-password --random prints a strong token, and keeps it', async t => {
  const cwd = t.testdir({ '.svc': { 'config.json': '{"serverUrl":"https://deploy.test"}' } })
  const { code, stdout, stderr } = await svc(['admin', 'reset-password', '--random'], { cwd })
  t.equal(code, 0)
  t.match(stdout, /^[\w-]{43}\n$/)
  t.equal(tokenOf(cwd), stdout.trim())
  t.notMatch(stderr, /warning/)
  t.match(readFileSync(join(cwd, '.svc/config.json'), 'utf8'), 'https://deploy.test')
})

t.test('admin reset-password takes the token from a flag, standard input, or the environment', async t => {
  const ways: Array<[words: string[], options: { input?: string; env?: Record<string, string> }]> = [
    [['--password', strong], {}],
    [['--password', '-'], { input: `${strong}\n` }],
    [[], { env: { SVC_NEW_ADMIN_TOKEN: strong } }]
  ]
  for (const [words, options] of ways) {
    const cwd = t.testdir({})
    const { code, stdout, stderr } = await svc(['reset-password', ...words], { cwd, ...options })
    t.equal(code, 0, stderr)
    t.equal(stdout, '')
    t.equal(tokenOf(cwd), strong)
    t.notMatch(stderr, strong)
  }
})

t.test('admin reset-password warns of a weak token, and of ADMIN_TOKEN, which overrides it', async t => {
  const cwd = t.testdir({ '.env.local': 'ADMIN_TOKEN=other\n' })
  const { code, stderr } = await svc(['admin', 'reset-password', '--password', 'weak-token'], { cwd })
  t.equal(code, 0)
  t.match(stderr, /warning: the token is weak: it has 10 characters/)
  t.match(stderr, /warning: ADMIN_TOKEN in .*\.env\.local overrides it/)
  t.equal(tokenOf(cwd), 'weak-token')
})

t.test('admin reset-password asks twice on a terminal, without showing the token', { skip: noTerminal }, async t => {
  const cwd = t.testdir({})
  const asked = (second: string) =>
    svcOnTerminal(
      ['admin', 'reset-password'],
      [
        { see: 'New admin token: ', type: `${strong}\r` },
        { see: 'Once more: ', type: `${second}\r` }
      ],
      { cwd }
    )
  const good = await asked(strong)
  t.equal(good.code, 0, good.text)
  t.notMatch(good.text, strong)
  t.equal(tokenOf(cwd), strong)
  const bad = await asked('something-else')
  t.equal(bad.code, 1)
  t.match(bad.text, /not the same: nothing was changed/)
  t.equal(tokenOf(cwd), strong)
})
