import { createLookup } from '../../lib/http/outgoing/lookup.js'

/** A process that looks a name up, gives it up once it is told to, and has nothing else to do. */
const [name = '', server = ''] = process.argv.slice(2)
const { lookup, cancel } = createLookup({ servers: [server] })
lookup(name, {}, error => void process.stdout.write(`${error?.code}\n`))
process.once('SIGTERM', () => cancel())
process.stdout.write('asking\n')
