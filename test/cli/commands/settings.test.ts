import t from 'tap'
import { adminToken, startServer } from '../../support/server.js'
import { svc } from '../../support/svc.js'
import { notificationKinds } from '../../../lib/model/setting.js'
import { commands } from '../../../lib/cli/commands/settings.js'
import { startReceiver } from '../../support/receiver.js'

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

t.test('svc notify', async t => {
  const stage = await startServer(t)
  const receiver = await startReceiver(t)
  const shop = await stage.createProject('shop')
  const env = { SVC_SERVER_URL: stage.url, SVC_TOKEN: adminToken }
  const notify = (words: string[], input?: string) =>
    svc(['notify', ...words], { cwd: stage.sites, env, ...(input !== undefined && { input }) })
  const url = `${receiver.url}/hidden-path`

  await t.test('adds targets whose address comes from standard input', async t => {
    t.match(await notify(['list']), { code: 0, stdout: '', stderr: /no notification targets.*svc notify add/ })
    const events = ['--events', 'deploy_failure,deploy_waiting']
    const added = await notify(
      ['add', 'team', '--kind', 'slack', '--url', '-', ...events, '--project', 'shop'],
      `${url}\n`
    )
    t.match(added, { code: 0, stdout: /^Added "team" \(slack, http:\/\/127\.0\.0\.1:\d+\/…\)\n$/ })
    const all = await notify(['add', 'all', '--url', url, '--secret', '-', '--json'], 'signing-secret-0123')
    t.match(JSON.parse(all.stdout), { name: 'all', kind: 'generic', projectIds: [], hasSecret: true, enabled: true })
    t.match((await stage.client.get('/api/notification-targets')).body.items, [
      { isFromSettings: true },
      { name: 'team', kind: 'slack', events: ['deploy_failure', 'deploy_waiting'], projectIds: [shop.id] },
      { name: 'all' }
    ])
  })

  await t.test('lists them without what is secret', async t => {
    const { code, stdout } = await notify(['list'])
    t.equal(code, 0)
    t.match(stdout, /^team +slack +http:\S+… +shop +deploy_failure, deploy_waiting +enabled *$/m)
    t.match(stdout, /^all +generic +http:\S+… +all projects +all +enabled *$/m)
    t.notMatch(stdout, /webhook_url|hidden-path/)
    t.match(JSON.parse((await notify(['list', '--json'])).stdout), [
      { id: 'settings' },
      { name: 'team' },
      { name: 'all' }
    ])
  })

  await t.test('sends a test message and says the answer', async t => {
    t.match(await notify(['test', 'TEAM']), { code: 0, stdout: /^"team" answered with status 200 in \d+ ms\n$/ })
    t.match(receiver.requests, [{ path: '/hidden-path' }])
    receiver.behave(404)
    t.match(await notify(['test', 'team']), { code: 1, stdout: '', stderr: /was not delivered: .*404/ })
    const json = await notify(['test', 'team', '--json'])
    t.equal(json.code, 1)
    t.match(JSON.parse(json.stdout), { success: false, statusCode: 404 })
    t.match(await notify(['test', 'webhook_url']), { code: 1, stderr: /there is no address/ })
  })

  await t.test('removes one by name or id, and refuses what is ambiguous or unknown', async t => {
    t.match(await notify(['remove', 'all']), { code: 1, stderr: /no terminal to ask on: use --yes/ })
    t.match(await notify(['remove', 'all', '--yes']), { code: 0, stdout: 'Removed the notification target "all"\n' })
    t.match(await notify(['remove', 'all', '--yes']), { code: 1, stderr: /target not found: "all".*svc notify list/ })
    const other = await notify(['add', 'Team', '--url', url, '--json'])
    const { id } = JSON.parse(other.stdout) as { id: string }
    t.match(await notify(['test', 'team']), { code: 2, stderr: matchingIds(id) })
    t.match(await notify(['remove', id, '--yes']), { code: 0 })
    t.match(await notify(['remove', 'team', '--yes']), { code: 0 })
    t.match(await notify(['remove', 'webhook_url', '--yes']), { code: 1, stdout: '' })
  })

  await t.test('refuses what no target can have', async t => {
    const refused: Array<[words: string[], code: number, says: RegExp]> = [
      [['add', 'x'], 1, /The address is missing.*use "--url -"/],
      [['add', 'x', '--url', '-', '--secret', '-'], 2, /Only one of --url and --secret/],
      [['add', 'x', '--url', url, '--secret', 'written'], 2, /--secret cannot be "written"/],
      [['add', 'x', '--url', url, '--kind', 'pigeon'], 2, /--kind cannot be "pigeon"/],
      [['add', 'x', '--url', url, '--events', 'deploy_failure,sunrise'], 1, /--events.*sunrise/],
      [['add', 'x', '--url', url, '--project', 'nothing'], 1, /Project not found: "nothing"/],
      [['add', 'x', '--url', 'nonsense'], 1, /--url/]
    ]
    for (const [words, code, says] of refused)
      t.match(await notify(words), { code, stdout: '', stderr: says }, words.join(' '))
  })
})

function matchingIds(id: string): RegExp {
  return new RegExp(`Several notification targets have the name "team".*ids: .*${id}`)
}

t.test('the kinds are those of the API', async t => {
  t.same(commands['notify add'].options['kind']?.choices, notificationKinds)
})
