import type { RunningServer } from '../../main/serve.js'
import { locateHome } from '../../config/home.js'
import { defineCommand, exitCodes, type Host } from '../command.js'
import { usage } from '../args.js'

export const command = defineCommand({
  operands: {
    action: { help: 'only with --pm2: "stop" ends the server that runs there' }
  },
  options: {
    host: { type: 'text', value: 'address', default: '127.0.0.1', help: 'the address to listen on' },
    port: {
      type: 'count',
      alias: 'p',
      value: 'number',
      default: 5431,
      maximum: 65_535,
      help: 'the port; 0 takes a free one'
    },
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
    'directory, ADMIN_TOKEN (also in .env.local) another admin token than the one kept there.',
  examples: [
    ['serve', 'listen on 127.0.0.1:5431'],
    ['serve --host 0.0.0.0 --port 8080 --base /deploy', 'for other machines, below /deploy'],
    ['serve --pm2', 'run under pm2, which starts it again when it fails; its files are in pm2/ of the data directory'],
    ['serve --pm2 stop', 'end that']
  ],
  async run({ options, operands: { action } }, context) {
    const { host, env, cwd, output } = context
    if (action !== undefined && !(options.pm2 && action === 'stop')) {
      throw usage(action, `unexpected word "${action}": the only one is "stop", after --pm2`)
    }
    if (options.pm2) {
      const { startSupervised, stopSupervised } = await import('../supervision.js')
      return action === 'stop' ? stopSupervised(context) : startSupervised(wordsOf(options), context)
    }
    if (options.runtime === 'bun' && process.versions['bun'] === undefined) {
      const { runWithBun } = await import('../bun.js')
      return runWithBun(['serve', ...wordsOf({ ...options, runtime: 'auto' })], host)
    }
    // It compiles while the files of all the other modules are read (test/bench/start).
    const sqlite = import('../../store/sqlite.js').then(({ loadSqlite }) => loadSqlite())
    sqlite.catch(() => {}) // told by whoever waits for it
    const { serve } = await import('../../main/serve.js')
    const starting = serve({
      sqlite,
      home: locateHome(env, cwd),
      host: options.host,
      port: options.port,
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

interface ServeOptions {
  host: string
  port: number
  base: string
  runtime: string
  terminal: boolean
}

/** The same options as words, for another process. */
function wordsOf({ host, port, base, runtime, terminal }: ServeOptions): string[] {
  return [
    ...['--host', host, '--port', String(port), `--base=${base}`],
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
