import t from 'tap'
import { parseJlist } from '../../lib/pm2/pm2-list.js'

const shop = {
  name: 'shop',
  pm_id: 3,
  pid: 1234,
  monit: { memory: 1000, cpu: 1.5 },
  pm2_env: {
    status: 'online',
    pm_uptime: 5000,
    restart_time: 2,
    unstable_restarts: 1,
    exec_mode: 'fork_mode',
    created_at: 4000,
    pm_err_log_path: '/e',
    pm_out_log_path: '/o',
    SECRET: 'never "]" told',
    args: ['[', '{']
  }
}
const read = {
  name: 'shop',
  pmId: 3,
  pid: 1234,
  status: 'online',
  startedAtMs: 5000,
  restarts: 2,
  unstableRestarts: 1,
  cpuPercent: 1.5,
  memoryBytes: 1000,
  execMode: 'fork_mode',
  errorLogPath: '/e',
  outLogPath: '/o',
  createdAt: 4000
}
const json = JSON.stringify([shop])

t.test('finds the list in the output of pm2', async t => {
  const cases: Array<[what: string, text: string, expected: unknown]> = [
    ['nothing else', json, [read]],
    ['nothing runs', '[]', []],
    [
      'the daemon was started',
      `[PM2] Spawning PM2 daemon with pm2_home=/x\n[PM2] PM2 Successfully daemonized\n${json}`,
      [read]
    ],
    ['the daemon is out of date', `>>>> In-memory PM2 is out-of-date, do:\n>>>> $ pm2 update\n${json}`, [read]],
    ['noise without a line end', `[PM2][WARN] x${json}`, [read]],
    ['noise after it', `${json}\n[PM2] done []\n[]`, [read]],
    ['other arrays before it', `[1] [{"a":1}] [] ${json}`, [read]],
    ['several lines', JSON.stringify([shop], null, 2), [read]],
    ['cut off', json.slice(0, -5), null],
    ['no list', 'command not found', null],
    ['nothing', '', null]
  ]
  for (const [what, text, expected] of cases) t.same(parseJlist(text), expected, what)
})

t.test('reads an entry with missing fields', async t => {
  t.match(parseJlist('[{"name":"x","pm_id":0}]'), [
    { name: 'x', pmId: 0, pid: null, status: 'unknown', memoryBytes: 0 }
  ])
  t.match(parseJlist('[{"name":"x","pm_id":0,"pid":0,"pm2_env":{"status":"stopped","pm_uptime":9}}]'), [
    { pid: null, startedAtMs: null }
  ])
})

t.test('gives up on many unclosed brackets instead of reading the text for each of them', async t => {
  t.equal(parseJlist('[{'.repeat(200_000)), null)
})
