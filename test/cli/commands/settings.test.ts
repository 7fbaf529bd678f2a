import t from 'tap'
import { adminToken, startServer } from '../../support/server.js'
import { svc } from '../../support/svc.js'

const secret = 'whsec_c2VjcmV0LW9mLXRoZS10ZXN0'

t.test('svc settings', async t => {
  const stage = await startServer(t)
  const env = { SVC_SERVER_URL: stage.url, SVC_TOKEN: adminToken }
  const settings = (words: string[], input?: string) =>
    svc(['settings', ...words], { cwd: stage.sites, env, ...(input !== undefined && { input }) })
  const stored = async (): Promise<Record<string, string>> =>
    (await stage.client.get('/api/settings')).body as Record<string, string>

  await t.test('sets one setting, or several or none', async t => {
    t.match(await settings(['set', 'keep_archives', '7']), { code: 0, stdout: 'Set keep_archives to 7\n' })
    const both = await settings(['set', 'keep_archives=8', 'commit_url=https://git.example.org/{commit}?a=b'])
    t.match(both, { code: 0, stdout: /^Set keep_archives to 8\nSet commit_url to https:.*a=b\n$/ })
    const refused = await settings(['set', 'audit_days=90', 'keep_archives=many'])
    t.match(refused, { code: 1, stdout: '', stderr: /keep_archives/ })
    t.match(await stored(), { keep_archives: '8', audit_days: /^(?!90$)/ }, 'nothing was changed')
    t.match(await settings(['set', 'commit_url', '']), { code: 0, stdout: 'Set commit_url to (empty)\n' })
    t.match(JSON.parse((await settings(['set', 'keep_archives', '9', '--json'])).stdout), [
      { key: 'keep_archives', value: '9', isDefault: false, secret: false }
    ])
  })

  await t.test('lists and prints values, with the defaults and without secrets', async t => {
    t.match(await settings(['set', 'webhook_secret', '-'], `${secret}\n`), { code: 0, stdout: /\*\*\* \(secret\)/ })
    await settings(['set', 'webhook_url', 'https://hooks.example.org/services/hidden'])
    const { code, stdout } = await settings(['list'])
    t.equal(code, 0)
    t.match(stdout, /^KEY +VALUE +DEFAULT\n/)
    t.match(stdout, /^keep_archives +9 +\d+$/m)
    t.match(stdout, /^webhook_secret +\*\*\* \(secret\)/m)
    t.match(stdout, /^metrics_token +\(secret, not set\) +yes$/m)
    t.match(stdout, /^webhook_url +https:\/\/hooks\.example\.org\/… +\(empty\) *$/m)
    t.match(stdout, /^max_upload_size +500 +yes$/m)
    const listed = await settings(['list', '--json'])
    t.notMatch(listed.stdout, secret)
    const rows = JSON.parse(listed.stdout) as Array<{ key: string }>
    t.same(rows.map(({ key }) => key).sort(), Object.keys(await stored()).sort())
    t.match(
      rows.find(({ key }) => key === 'webhook_secret'),
      { value: null, secret: true, isDefault: false }
    )
    t.match(await settings(['get', 'keep_archives']), { code: 0, stdout: '9\n' })
    t.match(await settings(['get', 'webhook_secret']), { code: 0, stdout: `${secret}\n` })
    t.match(JSON.parse((await settings(['get', 'keep_archives', '--json'])).stdout), {
      key: 'keep_archives',
      value: '9'
    })
  })

  await t.test('refuses unknown keys with the nearest, and secrets in the command', async t => {
    const refused: Array<[words: string[], says: RegExp]> = [
      [['get', 'keep_archive'], /Unknown setting "keep_archive": did you mean "keep_archives"\?/],
      [['set', 'keep_archive', '3'], /did you mean "keep_archives"\?/],
      [['set', 'zzzzzzzzzzzzzzz', '3'], /"svc settings list" shows all/],
      [['set', 'metrics_token', 'a-token-0123456789'], /is a secret.*svc settings set metrics_token -/],
      [['set', 'keep_archives'], /The value of "keep_archives" is missing/],
      [['set', 'keep_archives=1', 'audit_days'], /The value of "audit_days" is missing/],
      [['set', 'keep_archives=1', 'keep_archives=2'], /given twice/],
      [['set', 'metrics_token=-', 'webhook_secret=-'], /Only one value/],
      [['set'], /<settings> is missing/]
    ]
    for (const [words, says] of refused)
      t.match(await settings(words), { code: 2, stdout: '', stderr: says }, words.join(' '))
    t.match(await stored(), { keep_archives: '9' })
  })
})
