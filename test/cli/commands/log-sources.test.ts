import t from 'tap'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startServer, adminToken } from '../../support/server.js'
import { svc } from '../../support/svc.js'

t.test('svc logs sources', async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const other = await stage.createProject('other')
  const cwd = join(stage.sites, 'here')
  mkdirSync(cwd)
  const file = (name: string): string => {
    writeFileSync(join(cwd, name), 'a line\n')
    return join(cwd, name)
  }
  const [app, access, third] = [file('app.log'), file('access.log'), file('third.log')]
  const env = { SVC_SERVER_URL: stage.url, SVC_TOKEN: adminToken }
  const logs = (...words: string[]) => svc(['logs', ...words], { cwd, env })
  const sources = (...words: string[]) => logs('sources', ...words)

  t.match(await sources('list', '--project', 'shop'), { code: 0, stdout: '', stderr: /svc logs sources add/ })
  t.match(await sources('add', app), { code: 1, stderr: /svc\.config\.json/ })
  const added = await sources('add', app, access, '--project', 'shop')
  t.match(added, { code: 0, stdout: `Added app.log: ${app}\nAdded access.log: ${access}\n` })
  const named = await sources('add', third, '--project', 'other', '--kind', 'nginx', '--label', 'app.log', '--json')
  t.match(JSON.parse(named.stdout), [{ label: 'app.log', kind: 'nginx', filePath: third, projectId: other.id }])

  writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify({ projectId: shop.id }))
  const { code, stdout } = await sources('list')
  t.equal(code, 0)
  t.match(stdout, /^LABEL +KIND +FILE +ID\n/)
  for (const path of [app, access]) t.match(stdout, path)
  t.notMatch(stdout, third)
  t.match(await svc(['tail', 'access.log'], { cwd, env }), { code: 0, stdout: 'a line\n' }, 'they can be read')

  t.match(await sources('remove', 'app.log'), { code: 2, stderr: /2 log sources are called "app\.log".*ids: \w+, \w+/ })
  t.match(await sources('remove', 'app.log', '--project', 'shop'), {
    code: 0,
    stdout: /^Removed app\.log: .*not deleted\n$/
  })
  t.match(await sources('remove', access), { code: 0 })
  const left = await sources('list', '--json', '--project', 'other')
  const [{ id }] = JSON.parse(left.stdout) as [{ id: string }]
  t.match(JSON.parse((await sources('remove', id, '--json')).stdout), { id, label: 'app.log' })
  t.match(await sources('remove', id), { code: 1, stderr: /Log source not found: .*svc logs sources list/ })
  t.same((await stage.client.get('/api/log-sources')).body.items, [])

  t.match(await sources('add', app, access, '--label', 'x'), { code: 2, stderr: /--label names one file/ })
  t.match(await sources('add', 'app.log'), { code: 2, stderr: /"app\.log" is not absolute/ })
  t.match(await sources('add', join(cwd, '../../../home/svc.db')), { code: 1, stdout: '' })
  t.match(await logs('dep_none'), { code: 1, stdout: '', stderr: /Deployment not found: "dep_none"/ })
})
