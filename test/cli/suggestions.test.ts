import t from 'tap'
import { commands, topics } from '../../lib/cli/command-table.js'
import { meantBy } from '../../lib/cli/suggestions.js'

t.test('another spelling, another word and a typing error get the command that was meant', async t => {
  const cases: Array<[typed: string, meant: string | undefined]> = [
    ['psuh', 'push'],
    ['stauts', 'status'],
    ['undoo', 'undo'],
    ['tokens', 'token list'],
    ['tokens list', 'token list'],
    ['token revok', 'token revoke'],
    ['rollouts', 'rollout list'],
    ['rollouts halt', 'rollout halt'],
    ['project list', 'projects list'],
    ['projects:create', 'projects create'],
    ['env:set', 'env set'],
    ['config set', 'config:set'],
    ['config set a b', 'config:set'],
    ['config-set', 'config:set'],
    ['telemetry status', 'telemetry:status'],
    ['telemetry', 'telemetry:status'],
    ['fleet:nodes', 'fleet nodes'],
    ['nodes', 'fleet nodes'],
    ['nodes list', 'fleet nodes'],
    ['fleet list', 'fleet nodes'],
    ['fleet status', 'fleet nodes'],
    ['users', 'token list'],
    ['deployments', 'status'],
    ['variables', 'env list'],
    ['secrets', 'env list'],
    ['audits', 'audit list'],
    ['audit log', 'audit list'],
    ['key rotate', 'keys rotate'],
    ['backups', 'backup'],
    ['acces', 'access'],
    ['push:now', 'push'],
    ['up', 'push'],
    ['projects env', 'env list'],
    ['admin token', 'admin reset-password'],
    ['server start', 'serve'],
    ['restart', 'serve'],
    ['delete shop', 'projects delete'],
    ['stats', 'status'],
    ['notifications', 'notify list'],
    ['webhooks', 'notify list'],
    ['frobnicate', undefined]
  ]
  for (const [typed, meant] of cases) t.equal(meantBy(typed.split(' '), commands, topics), meant, typed)
})

t.test('what is meant is a command or a topic', async t => {
  const words = ['up', 'users', 'settings', 'hub', 'get', 'stat', 'man', 'diff', 'create', 'accept', 'roles']
  const names = [...commands.flatMap(({ name, aliases = [] }) => [name, ...aliases]), ...Object.keys(topics)]
  for (const word of words) t.ok(names.includes(meantBy([word], commands, topics) as string), word)
})
