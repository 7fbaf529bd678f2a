import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { svc } from '../../support/svc.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'
import { until } from '../../support/until.js'

const config = JSON.stringify({ projectId: 'proj_1', serverUrl: 'https://deploy.test/svc' })

t.test('open prints the address of a page', async t => {
  const cwd = t.testdir({ 'svc.config.json': config })
  const cases: Array<[words: string[], address: string]> = [
    [[], 'https://deploy.test/svc/projects/proj_1'],
    [['dep_1'], 'https://deploy.test/svc/deployments/dep_1'],
    [['proj_2'], 'https://deploy.test/svc/projects/proj_2'],
    [['--server', 'https://other.test', 'dep_1'], 'https://other.test/deployments/dep_1']
  ]
  for (const [words, address] of cases)
    t.match(await svc(['open', ...words], { cwd }), { code: 0, stdout: `${address}\n`, stderr: '' })
  t.match(await svc(['open', '../x'], { cwd }), { code: 2, stderr: /is not an id/ })
  t.match(await svc(['open', '--server', 'https://other.test'], { cwd: t.testdir({}) }), {
    code: 0,
    stdout: 'https://other.test/\n'
  })
})

t.test(
  'open starts a browser on a terminal, without a token',
  { skip: noTerminal || (process.platform !== 'linux' && 'the browser is started by xdg-open') },
  async t => {
    const cwd = t.testdir({
      'svc.config.json': config,
      bin: {
        'xdg-open': '#!/bin/sh\n{ echo "$@"; env; } > "$HOME/opened.part"; mv "$HOME/opened.part" "$HOME/opened"\n'
      }
    })
    chmodSync(join(cwd, 'bin/xdg-open'), 0o755)
    const env = {
      PATH: `${join(cwd, 'bin')}:${process.env['PATH']}`,
      DISPLAY: ':0',
      SVC_TOKEN: 'hidden-admin',
      SVC_DEPLOY_TOKEN: 'hidden-deploy'
    }
    t.match(await svcOnTerminal(['open', 'dep_1', '--no-browser'], [], { cwd, env }), {
      code: 0,
      text: /deployments\/dep_1/
    })
    t.notOk(existsSync(join(cwd, 'opened')))
    t.match(await svcOnTerminal(['open', 'dep_1'], [], { cwd, env }), { code: 0, text: /deployments\/dep_1/ })
    await until(() => existsSync(join(cwd, 'opened')))
    const opened = readFileSync(join(cwd, 'opened'), 'utf8')
    t.match(opened, /^https:\/\/deploy\.test\/svc\/deployments\/dep_1\n/)
    t.notMatch(opened, /hidden-/)

    writeFileSync(join(cwd, 'opened'), '')
    const { DISPLAY: _, ...without } = env
    t.match(await svcOnTerminal(['open', 'dep_1'], [], { cwd, env: without }), {
      code: 0,
      text: /No browser was found/
    })
  }
)
