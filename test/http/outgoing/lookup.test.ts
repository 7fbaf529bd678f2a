import t from 'tap'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { LookupAddress, LookupOptions } from 'node:dns'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createLookup, type LookupSources } from '../../../lib/http/outgoing/lookup.js'
import { startNameServer } from '../../support/name-server.js'
import { until } from '../../support/until.js'

function find(
  name: string,
  sources: LookupSources,
  options: LookupOptions = { all: true }
): Promise<string | LookupAddress[]> {
  const { lookup, cancel } = createLookup(sources)
  return new Promise<string | LookupAddress[]>((resolve, reject) => {
    lookup(name, options, (error, found) => (error === null ? resolve(found) : reject(error)))
  }).finally(cancel)
}

const v6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]

t.test('asks the hosts file, then DNS, then the system', async t => {
  const { address, asked } = await startNameServer(t, {
    'both.test': { v4: '192.0.2.1', v6 },
    'four.test': { v4: '192.0.2.4' },
    'half.test': { v4: '192.0.2.5', v6: null }
  })
  const hosts =
    '# 192.0.2.8 comment.test\n192.0.2.9\tnamed.test Alias.test # both.test\r\nnonsense four.test\n::1 named.test\n'
  const sources = { servers: [address], hostsFile: join(t.testdir({ hosts }), 'hosts') }
  const cases: Array<[name: string, expected: unknown, options?: LookupOptions]> = [
    [
      'named.test',
      [
        { address: '192.0.2.9', family: 4 },
        { address: '::1', family: 6 }
      ]
    ],
    ['NAMED.test', '192.0.2.9', {}],
    ['alias.test', '192.0.2.9', { family: 4 }],
    ['named.test', '::1', { family: 'IPv6' }],
    ['four.test', [{ address: '192.0.2.4', family: 4 }]],
    ['both.test', '2001:db8::7', { family: 6 }],
    ['half.test', [{ address: '192.0.2.5', family: 4 }]]
  ]
  for (const [name, expected, options] of cases) t.strictSame(await find(name, sources, options), expected, name)
  const both = (await find('both.test', sources)) as LookupAddress[]
  t.same(both.map(({ address }) => address).sort(), ['192.0.2.1', '2001:db8::7'])
  t.notOk(asked.includes('named.test'), 'names in the hosts file are not sent to DNS')
  await t.rejects(find('alias.test', sources, { family: 6 }), { code: 'ENOTFOUND' })
  const local = await find('localhost', { servers: [address], hostsFile: null }, { family: 4 })
  t.equal(local, '127.0.0.1', 'the system knows a name that DNS does not')
})

t.test('can be cancelled while a DNS server is silent, and then keeps no process running', async t => {
  const { address, asked } = await startNameServer(t, { 'silent.test': null })
  const program = fileURLToPath(new URL('../../support/looking-up.js', import.meta.url))
  const child = spawn(process.execPath, [program, 'silent.test', address], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text))
  const ended = once(child, 'close')
  await until(() => asked.includes('silent.test'))
  child.kill('SIGTERM')
  t.same(await ended, [0, null], 'the process ended by itself')
  t.equal(said, 'asking\nECANCELLED\n')
})
