import { createLookup } from '../../lib/http/outgoing/post.js'

/** A process that looks up a name and gives up on command. */
const [name = '', server = ''] = process.argv.slice(2)
const { lookup, cancel } = createLookup({ servers: [server] })
lookup(name, {}, error => void process.stdout.write(`${error?.code}\n`))
process.once('SIGTERM', () => cancel())
process.stdout.write('asking\n')
