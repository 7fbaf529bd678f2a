import { Refusal } from '../../base/refusal.js'
import { randomIds } from '../../base/ids.js'
import { checkNewToken, strongToken, weaknessOf } from '../../auth/admin-token.js'
import { readDotenv, type Dotenv } from '../../config/dotenv.js'
import { locateHome } from '../../config/home.js'
import { usage } from '../args.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { withLocalApi } from '../local.js'
import { askSecret, mustAsk, readSecret } from '../prompt.js'

/** An alternative to `--password`, which other users of the machine can see in the list of processes. */
const variable = 'SVC_NEW_ADMIN_TOKEN'

export const command = defineCommand({
  operands: {},
  options: {
    random: { type: 'switch', help: 'generate one, and print it' },
    password: { type: 'text', value: 'token', help: 'the new token; "-" reads it from standard input' }
  },
  details:
    'Works on the data directory (SVC_HOME), whether the server runs or not; a running one uses the new token from\n' +
    'its next request on. The audit log says that it was reset, not to what.\n' +
    `${variable} may hold the new token instead of --password.`,
  examples: [
    ['admin reset-password', 'ask for it twice'],
    ['admin reset-password --random', 'let svc choose one'],
    ['admin reset-password --password - < token.txt', 'from a file, unseen']
  ],
  async run({ options }, context) {
    if (options.random && options.password !== undefined) {
      throw usage(
        '--random',
        '--random and --password cannot be used together: either svc chooses the token, or you do'
      )
    }
    const { env, cwd, output } = context
    const token = options.random ? strongToken(randomIds) : await chosenToken(options.password, context)
    checkNewToken(token, '--password')
    const weakness = weaknessOf(token)
    if (weakness !== null) output.warn(`the token is weak: ${weakness} ("--random" makes a strong one)`)
    const home = locateHome(env, cwd)
    const isServerRunning = await withLocalApi(context, home, async ({ client, isServerRunning }) => {
      await client.json({ method: 'POST', path: '/api/auth/reset', json: { newToken: token } })
      return isServerRunning
    })
    if (options.random) output.print(token)
    output.note(`The admin token is set in ${home.configFile}.${isServerRunning ? ' The server uses it from now on.' : ''}`)
    await warnOfOverride(context)
    return exitCodes.success
  }
})

async function chosenToken(password: string | undefined, { host, env }: Context): Promise<string> {
  const given = password ?? env[variable]
  if (given !== undefined) return readSecret(host, '--password', given)
  mustAsk(host, 'The new token is missing', 'give --random or --password')
  const token = await askSecret(host, 'New admin token')
  if ((await askSecret(host, 'Once more')) === token) return token
  throw new Refusal('invalid', 'tokens_differ', 'The two were not the same: nothing was changed')
}

async function warnOfOverride({ env, cwd, output }: Context): Promise<void> {
  const { path, values } = await readDotenv(cwd, 'server').catch((error: unknown) => {
    if (!(error instanceof Refusal)) throw error
    output.warn(error.message)
    return { path: '', values: {} as Dotenv['values'] }
  })
  const from = env['ADMIN_TOKEN'] ? 'the environment' : values.ADMIN_TOKEN ? path : null
  if (from !== null) output.warn(`ADMIN_TOKEN in ${from} overrides it when the server is started from here`)
}
