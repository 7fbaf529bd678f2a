import type { RunningServer } from '../../main/serve.js'
import { locateHome } from '../../config/home.js'
import { defineCommand, exitCodes, type Host } from '../command.js'
import { usage } from '../args.js'
import { listeningOf, listeningOptions, listeningWords, type ListeningWords } from '../listening.js'

export const command = defineCommand({
  operands: {
    action: { help: 'only with --pm2: "stop" ends the server that runs there' }
  },
  options: {
    ...listeningOptions,
    base: {
      type: 'text',
      value: 'prefix',
      default: '',
      help: 'the path everything lives under: a, /a and /a/ are the same'
    },
    runtime: {
      type: 'text',
      choices: ['auto', 'node', 'bun'],
      default: 'auto',
      help: 'what runs the server; auto: what runs this command'
    },
    terminal: { type: 'switch', default: true, help: 'offer no terminal, whatever the settings say' },
    pm2: { type: 'switch', help: 'run it under pm2, as svc-server, in place of one that runs there' }
  },
  details:
    'Ctrl-C, or SIGTERM, waits for running deployments; a second one stops them. SVC_HOME chooses the data\n' +
    'directory, ADMIN_TOKEN (also in .env.local) another admin token than the one kept there, SVC_PUBLIC_URL the\n' +
    'address under which people reach the server, for links in notifications and commands to copy.',
  examples: [
    ['serve', 'listen on 127.0.0.1:5431'],
    ['serve --host 0.0.0.0 --port 8080 --base /deploy', 'for other machines, below /deploy'],
    ['serve --host 0.0.0.0 --tls-cert fullchain.pem --tls-key privkey.pem', 'HTTPS without a proxy'],
    ['serve --socket /run/svc/svc.sock', 'for a proxy on this machine, reached through a file'],
    ['serve --pm2', 'run under pm2, which starts it again when it fails; its files are in pm2/ of the data directory'],
    ['serve --pm2 stop', 'end that']
  ],
  async run({ options, operands: { action } }, context) {
    const { host, env, cwd, output } = context
    if (action !== undefined && !(options.pm2 && action === 'stop')) {
      throw usage(action, `unexpected word "${action}": the only one is "stop", after --pm2`)
    }
    const listening = listeningOf(options, cwd)
    if (options.pm2) {
      const { startSupervised, stopSupervised } = await import('../supervision.js')
      return action === 'stop' ? stopSupervised(context) : startSupervised(wordsOf(options), context)
    }
    if (options.runtime === 'bun' && process.versions['bun'] === undefined) {
      const { runWithBun } = await import('../bun.js')
      return runWithBun(['serve', ...wordsOf({ ...options, runtime: 'auto' })], host)
    }
    const { serve } = await import('../../main/serve.js')
    const starting = serve({
      home: locateHome(env, cwd),
      ...listening,
      base: options.base,
      terminal: options.terminal,
      environment: env,
      cwd,
      report: { info: output.print, warn: output.warn }
    })
    await untilStopped(starting, host, output.note)
    // pm2's channel to the process would keep it alive until pm2 kills it.
    if (env['SVC_SUPERVISED']) host.exit(exitCodes.success)
    return exitCodes.success
  }
})

interface ServeWords extends ListeningWords {
  base: string
  runtime: string
  terminal: boolean
}

/** The same options as words, for another process. */
function wordsOf({ base, runtime, terminal, ...words }: ServeWords): string[] {
  return [
    ...listeningWords(words),
    ...(base === '' ? [] : [`--base=${base}`]),
    ...(runtime === 'auto' ? [] : ['--runtime', runtime]),
    ...(terminal ? [] : ['--no-terminal'])
  ]
}

/**
 * The first signal waits for what runs, the second does not; a start that has begun is brought to its end. SIGHUP is
 * left alone: `nohup` means it.
 */
async function untilStopped(starting: Promise<RunningServer>, host: Host, note: (text: string) => void): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    let asked = 0
    const stop = () => {
      const wait = ++asked === 1
      if (wait) note('Stopping: running deployments may finish, once more stops them')
      starting.then(server => server.stop({ wait })).then(resolve, reject)
    }
    starting.catch(reject)
    host.on('SIGINT', stop)
    host.on('SIGTERM', stop)
  })
}
