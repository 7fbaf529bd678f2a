import type { Words } from '../t.js'
import { words as ofFleet } from './fleet.js'
import { words as ofAway } from './node-away.js'

/** Texts of `pages/node.ts`, and of what is around the pages of a node. */
export const words: Words = {
  ...ofFleet,
  ...ofAway,
  Node: '节点',
  'Pages of the node': '节点的页面',
  'You are looking at the node {name}, through this server.': '您正在通过本服务器查看节点 {name}。',
  'All nodes': '所有节点',
  'Node not found': '找不到该节点',
  Details: '详情',
  'Projects on this node': '该节点上的项目',
  'No project is placed here': '这里没有放置项目',
  'Open a project and place it on this node, in its tab “Nodes”. The next push is rolled out here.':
    '打开一个项目，在其“节点”页中将它放到该节点上。下一次推送就会发布到这里。',
  'Go to projects': '前往项目',
  '{name} was removed from the fleet': '{name} 已移除',
  'It was never connected.': '它从未连接过。',
  'Last seen': '最近联系',
  'What is shown here is what it said last. Check that “svc agent” runs there, and that the machine reaches this server.':
    '这里显示的是它最后一次报告的内容。请检查“svc agent”是否在那里运行，以及该机器能否连接本服务器。',
  'Version of svc': 'svc 版本',
  'Free space': '可用空间',
  Joined: '加入时间',
  'Public key': '公钥',
  Id: '编号'
}
