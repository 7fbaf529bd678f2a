import { checkNewToken, strongToken, weaknessOf } from '../../access/admin-token.js'
import { randomIds } from '../../base/digests.js'
import { Refusal } from '../../base/errors.js'
import { type Dotenv, readDotenv } from '../../base/config/files.js'
import { locateHome } from '../../base/config/home.js'
import { type Context, defineCommand, type Family, option, toggle, usage } from '../command.js'
import { findNamedToken } from '../named-tokens.js'
import { askSecret, mustAsk, readTokenOption } from '../terminal/prompt.js'
import { withLocalApi } from '../client/opened.js'

/** Alternative to `--password`, whose value other users of the machine can see in the list of processes. */
const variable = 'SVC_NEW_ADMIN_TOKEN'

/** The commands for people who cannot sign in. They work on the data directory. */
export const commands = {
  'admin reset-password': defineCommand({
    options: {
      random: toggle('generate a token and print it'),
      password: option('token', 'new token; "-" reads it from standard input')
    },
    details:
      'Works on the data directory (SVC_HOME), whether the server is running or not. A running server uses the new\n' +
      'token from its next request on. The audit log records the reset, but not the token.\n' +
      `Instead of --password, ${variable} can contain the new token.`,
    examples: [
      ['admin reset-password', 'ask for the new token twice'],
      ['admin reset-password --random', 'generate a token'],
      ['admin reset-password --password - < token.txt', 'read the token from a file']
    ],
    async run({ options }, context) {
      if (options.random && options.password !== undefined)
        throw usage('--random', '--random and --password cannot be used together: give only one of them')
      const { env, cwd, output } = context
      const token = options.random ? strongToken(randomIds) : await chosenToken(options.password, context)
      checkNewToken(token, '--password')
      const weakness = weaknessOf(token)
      if (weakness !== null) output.warn(`the token is weak: ${weakness}. Use --random to generate a strong one`)
      const home = locateHome(env, cwd)
      const isServerRunning = await withLocalApi(context, home, async ({ client, isServerRunning }) => {
        await client.call('POST /api/auth/reset', { body: { newToken: token } })
        return isServerRunning
      })
      if (options.random) output.print(token)
      output.note(
        `The admin token was stored in ${home.configFile}.${isServerRunning ? ' The running server already uses it.' : ''}`
      )
      await warnOfOverride(context)
    }
  }),

  'admin reset-second-factor': defineCommand({
    operands: { token: { required: true, help: 'name or id of the token' } },
    details:
      'For a user who lost the authenticator and the recovery codes. Works on the data directory (SVC_HOME), whether the\n' +
      'server is running or not. The audit log records the removal.',
    examples: [['admin reset-second-factor ana', 'let a user sign in without a code']],
    async run({ operands }, context) {
      const home = locateHome(context.env, context.cwd)
      await withLocalApi(context, home, async ({ client }) => {
        const token = await findNamedToken(client, operands.token)
        await client.call('DELETE /api/tokens/:id/second-factor', { id: token.id })
        context.output.print(`The second factor of the token "${token.name}" was removed`)
      })
    }
  })
} satisfies Family

async function chosenToken(password: string | undefined, { host, env }: Context): Promise<string> {
  const given = password ?? env[variable]
  if (given !== undefined) return readTokenOption(host, '--password', given)
  mustAsk(host, 'The new token is missing', 'use --random or --password')
  const token = await askSecret(host, 'New admin token')
  if ((await askSecret(host, 'Repeat the token')) === token) return token
  throw new Refusal('invalid', 'tokens_differ', 'The two tokens differ: nothing was changed. Run the command again')
}

async function warnOfOverride({ env, cwd, output }: Context): Promise<void> {
  const { path, values } = await readDotenv(cwd, 'server').catch((error: unknown) => {
    if (!(error instanceof Refusal)) throw error
    output.warn(error.message)
    return { path: '', values: {} as Dotenv['values'] }
  })
  const from = env['ADMIN_TOKEN'] ? 'the environment' : values.ADMIN_TOKEN ? path : null
  if (from !== null) output.warn(`ADMIN_TOKEN in ${from} overrides this token if the server is started from here`)
}
