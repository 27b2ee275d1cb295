// Paho Go: carries out the orders on standard input, one line of JSON each. MQTT 3.1.1 only.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

const (
	calm      = 20 * time.Second
	poll      = 10 * time.Millisecond
	lineBytes = 4 << 20
)

type order struct {
	Do, Host, Cafile, Certfile, Keyfile, Topic, Payload, Filter string
	ClientID                                                    string `json:"client_id"`
	WillTopic                                                   string `json:"will_topic"`
	WillPayload                                                 string `json:"will_payload"`
	Port, Count, Size                                           int
	Qos                                                         byte
	WillQos                                                     byte `json:"will_qos"`
	Clean, Retain                                               bool
	WillRetain                                                  bool `json:"will_retain"`
	Seconds                                                     float64
}

type answer struct {
	Error    string   `json:"error,omitempty"`
	Lost     []string `json:"lost"`
	Messages [][]any  `json:"messages,omitempty"`
}

type agent struct {
	sync.Mutex
	client   mqtt.Client
	messages [][]any
	lost     []string
}

func unhex(digits string) []byte {
	made, err := hex.DecodeString(digits)
	if err != nil {
		panic(err)
	}
	return made
}

func wait(token mqtt.Token) error {
	if !token.WaitTimeout(calm) {
		return errors.New("no answer")
	}
	return token.Error()
}

func (a *agent) connect(o order) error {
	options := mqtt.NewClientOptions().SetClientID(o.ClientID).SetCleanSession(o.Clean)
	scheme := "tcp"
	if o.Cafile != "" {
		scheme = "ssl"
		pem, err := os.ReadFile(o.Cafile)
		if err != nil {
			return err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		config := &tls.Config{RootCAs: roots}
		if o.Certfile != "" {
			pair, err := tls.LoadX509KeyPair(o.Certfile, o.Keyfile)
			if err != nil {
				return err
			}
			config.Certificates = []tls.Certificate{pair}
		}
		options.SetTLSConfig(config)
	}
	options.AddBroker(fmt.Sprintf("%s://%s:%d", scheme, o.Host, o.Port))
	if o.WillTopic != "" {
		options.SetBinaryWill(o.WillTopic, unhex(o.WillPayload), o.WillQos, o.WillRetain)
	}
	options.SetConnectionLostHandler(func(_ mqtt.Client, err error) {
		a.Lock()
		defer a.Unlock()
		a.lost = append(a.lost, err.Error())
	})
	// What a kept session holds comes before anything can be subscribed.
	options.SetDefaultPublishHandler(a.received)
	a.client = mqtt.NewClient(options)
	return wait(a.client.Connect())
}

func (a *agent) received(_ mqtt.Client, m mqtt.Message) {
	a.Lock()
	defer a.Unlock()
	a.messages = append(a.messages, []any{m.Topic(), hex.EncodeToString(m.Payload()), m.Qos(), m.Retained()})
}

func (a *agent) subscribe(o order) error {
	// A shared subscription's messages come under their own topic: the default handler takes them.
	token := a.client.Subscribe(o.Filter, o.Qos, nil)
	if err := wait(token); err != nil {
		return err
	}
	for _, granted := range token.(*mqtt.SubscribeToken).Result() {
		if granted != o.Qos {
			return fmt.Errorf("granted QoS %d", granted)
		}
	}
	return nil
}

// Publish in a loop, wait until each is sent or acknowledged, disconnect.
func (a *agent) burst(o order) error {
	tokens := make([]mqtt.Token, o.Count)
	for i := range tokens {
		payload := fmt.Sprintf("%08d", i) + strings.Repeat("x", o.Size-8)
		tokens[i] = a.client.Publish(o.Topic, o.Qos, false, payload)
	}
	for _, token := range tokens {
		token.Wait()
		if err := token.Error(); err != nil {
			return err
		}
	}
	a.client.Disconnect(250)
	return nil
}

func (a *agent) receive(o order) [][]any {
	seen, last := -1, time.Now()
	for {
		a.Lock()
		have := len(a.messages)
		if have != seen {
			seen, last = have, time.Now()
		}
		if have >= o.Count || time.Since(last).Seconds() > o.Seconds {
			if have > o.Count {
				have = o.Count
			}
			taken := a.messages[:have]
			a.messages = a.messages[have:]
			a.Unlock()
			return taken
		}
		a.Unlock()
		time.Sleep(poll)
	}
}

func (a *agent) do(o order) (made answer) {
	var err error
	switch o.Do {
	case "connect":
		err = a.connect(o)
	case "subscribe":
		err = a.subscribe(o)
	case "publish":
		err = wait(a.client.Publish(o.Topic, o.Qos, o.Retain, unhex(o.Payload)))
	case "burst":
		err = a.burst(o)
	case "receive":
		made.Messages = a.receive(o)
	case "disconnect":
		a.client.Disconnect(250)
	}
	if err != nil {
		made.Error = err.Error()
	}
	a.Lock()
	defer a.Unlock()
	made.Lost = append([]string{}, a.lost...)
	return made
}

func main() {
	a := &agent{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, lineBytes), lineBytes)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			panic(err)
		}
		if err := out.Encode(a.do(o)); err != nil {
			panic(err)
		}
	}
}
