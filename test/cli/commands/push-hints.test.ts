import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

/* Every command line that push prints is run by the user who saw it, with the same credentials and nothing else. */

const cwd = t.testdir({})
const started = startServe(t, cwd)
let number = 0

/** How a user may say server, project and token. */
const ways = {
  'a variable and svc.config.json': { config: true, env: true, words: [] as string[], input: false },
  'options alone': { config: false, env: false, words: ['--out', '.'], input: true },
  'an environment with a stored token': { config: true, env: false, words: ['--env', 'live'], input: false }
}

for (const [way, { config, env: hasVariable, words, input }] of Object.entries(ways)) {
  t.test(`the hints of push work with the same credentials: ${way}`, async t => {
    const server = await started
    const project = await server.createProject({ name: `site${++number}`, deployPath: join(cwd, `www${number}`) })
    const site = join(cwd, `site${number}`)
    mkdirSync(join(site, '.svc'), { recursive: true, mode: 0o700 })
    writeFileSync(join(site, 'index.html'), '<h1>one</h1>')
    const file = words.includes('live') ? 'svc.config.live.json' : 'svc.config.json'
    if (config) writeFileSync(join(site, file), JSON.stringify({ projectId: project.id, serverUrl: server.url }))
    if (words.includes('live')) {
      const stored = {
        projectToken: { [`${project.id}:live`]: project.token },
        projectTokenOrigin: { [`${project.id}:live`]: server.url }
      }
      writeFileSync(join(site, '.svc/config.json'), JSON.stringify(stored))
    }
    const given = [
      ...words,
      ...(config ? [] : ['--server', server.url, '--project', project.id]),
      ...(input ? ['--token', '-'] : [])
    ]
    const options = {
      cwd: site,
      env: (hasVariable ? { SVC_DEPLOY_TOKEN: project.token } : {}) as Record<string, string>,
      ...(input && { input: project.token })
    }

    const script = 'echo begun; until [ -e go ]; do sleep 0.05; done; echo done'
    const detached = await svc(['push', ...given, '--post', script], { ...options, interruptAt: /^begun$/m })
    t.equal(detached.code, 130, detached.stderr)
    const [, hint = ''] = /Follow it with: svc (.*)$/m.exec(detached.stderr) ?? []
    writeFileSync(join(cwd, `www${number}`, 'go'), '')
    t.match(await svc(hint.split(' '), options), { code: 0, stdout: /^done$/m }, hint)
    const [, deployId = ''] = /(dep_\w+)/.exec(hint) ?? []

    const flags = hint
      .replace(/^logs -f \S+ ?/, '')
      .split(' ')
      .filter(Boolean)
    t.match(await svc(['logs', deployId, ...flags], options), { code: 0, stdout: /^done$/m }, 'without following')
    const status = config
      ? ['status', ...flags]
      : ['status', project.id, ...flags.filter((word, at) => word !== '--project' && flags[at - 1] !== '--project')]
    t.match(await svc(status, options), { code: 0, stdout: new RegExp(deployId) }, status.join(' '))
    t.match(
      await svc(['cancel', deployId, ...flags], options),
      { code: 1, stderr: /has already finished/ },
      'cancel reaches it'
    )
  })
}
